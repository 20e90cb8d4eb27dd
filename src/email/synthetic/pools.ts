/**
 * The names of the synthetic world. No word is in two pools or in the phrases, so a word is unambiguous and a search
 * for it finds only its subject. A tokenizer may give each one token.
 *
 * The reserved pools occur in no default world, for tests with names that a model has never seen.
 */

/** Which names a world is made of. */
export type NameSet = "default" | "reserved";

export interface NamePools {
  readonly first: readonly string[];
  readonly last: readonly string[];
  readonly projects: readonly string[];
  readonly companies: readonly string[];
  readonly places: readonly string[];
}

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

export const pools: Readonly<Record<NameSet, NamePools>> = {
  default: {
    first: words(`
      Alice Aaron Bella Boris Carla Cesar Dana Derek Elena Ethan Fiona Felix Gloria Gavin Hanna Hugo Irene Ivan Julia
      Jonas Karen Kevin Laura Liam Maria Marco Nadia Nolan Olga Oscar Paula Pedro Quinn Ralph Rita Simon Sara Tomas Tara
      Uma Victor Wanda Walter Yara Yusuf Zoe Zane Megan Miles Peter Anita Bruno Clara Dmitri Esther Floyd Greta Harold
      Ingrid Jasper Kara Leon Mona Nils Odette Pablo Rosa Samuel Tessa Ulrich Vera Wesley Ximena Yvonne Adele Conrad
      Doris Emil Frida Gustav`),
    last: words(`
      Adams Baker Carter Diaz Evans Foster Gomez Hayes Irwin Jensen Keller Lopez Mason Nolte Ortiz Pryor Reed Sloan Turner
      Vargas Webb Young Zimmer Barnes Castro Dalton Ellis Fuller Gibson Hughes Klein Lambert Murphy Novak Owens Perez
      Ramos Stein Tate Walsh Archer Bishop Cooper Drake Emerson Fischer Graham Harris Jacobs Kramer Larsen Mueller Nelson
      Osborne Parker Quigley Rossi Sanders Thorpe Underhill Vance Wagner Yates Abbott Bennett Crosby Duncan Everett Farrell
      Griffin Holmes Jarvis Kendall Lowell Mercer Norris Palmer Rhodes Spencer Tucker`),
    projects: words(`
      Falcon Orion Atlas Cobalt Juniper Mercury Saturn Phoenix Granite Harbor Willow Cedar Maple Aspen Raven Condor Lynx
      Panther Jaguar Bison Comet Nebula Quasar Zenith Summit Glacier Tundra Delta Sierra Mesa Canyon Prairie Lagoon Coral
      Amber Topaz Onyx Opal Ruby Sapphire Emerald Indigo Scarlet Ivory Ebony Copper Bronze Silver Titan Apollo Hermes
      Athena Vulcan Neptune Pluto Triton Europa Callisto Ganymede Vega Sirius Rigel Altair Antares Polaris Castor Pollux
      Draco Hydra Lyra Cygnus Aquila Pegasus Beacon Lantern Compass Sextant Rudder Galley Breeze Thunder Tempest Cyclone
      Monsoon Zephyr Boulder Pebble Marble Quartz Basalt Flint Cactus Bamboo Clover Thistle Avalanche Cascade Meridian
      Obsidian Tornado`),
    companies: words(`
      Northwind Contoso Fabrikam Tailspin Litware Proseware Adatum Wingtip Lucerne Woodgrove Nodmoor Vertexa Pinnaro
      Synergex Dynacor Omnitek Solarix Luminor Novatek Quantix Zentrix Marlow Brightex Ironvale Redfern Kestrix Stanmore
      Caldera Hollux Wexcorp Aldermix Bexley Cormark Delphix Enerva Fernhall Gravitas Halcyon Inverta Jorvik Kelvane
      Lorimar Mistral Norvane Ostrava Paxwell Quillon Rovanta Selkirk Tarvos`),
    places: words(`
      Denver Austin Boston Dallas Houston Portland Seattle Chicago Atlanta Miami Tulsa Omaha Reno Tampa Memphis Detroit
      Orlando Oakland Fresno Madison Lincoln Wilmington Tucson Raleigh Durham Norfolk Toledo Dayton Albany Buffalo Newark
      Trenton Camden Dover Salem Eugene Boise Billings Savannah Nashville Spokane Charlotte Baltimore Cleveland
      Cincinnati Louisville Milwaukee Pittsburgh Sacramento Tacoma`),
  },
  reserved: {
    first: words(`
      Astrid Basil Celeste Damian Edith Fabian Gemma Hector Isolde Julian Katrin Lorenz Matilda Nestor Ophelia Pascal
      Rowena Silas Thelma Viggo`),
    last: words(`
      Ashford Blackwell Corrigan Delaney Eastwood Fairfax Goddard Hawthorne Ingram Jamison Kirkland Lockhart Merrick
      Nightingale Oakley Pemberton Rutherford Sinclair Trevino Whitaker`),
    projects: words(`
      Albatross Borealis Chimera Dolphin Eclipse Firefly Gazelle Horizon Icarus Jasmine Krypton Labyrinth Magnolia Nimbus
      Osprey Paragon Quiver Rhapsody Serenade Tangerine Umbra Vortex Wisteria Yukon Zodiac`),
    companies: words(`
      Arkwell Birchmont Crestline Dunmore Eltanin Foxgrove Glenrock Hartwick Islington Juvenal Kingsford Larkspur Montrose
      Nethercott Oakhurst Pellworm`),
    places: words(`
      Anchorage Bismarck Charleston Duluth Evanston Fargo Galveston Hartford Laramie Missoula Olympia Provo Richmond
      Stockton Topeka Wichita`),
  },
};

export const months = words("January February March April May June July August September October November December");

/** Kinds of question, each with its topics. */
export const topics = {
  when: words("kickoff review deadline launch workshop audit demo training inspection handover"),
  where: words("offsite dinner conference lunch interview reception tour seminar picnic retreat"),
  who: words("lead auditor designer contact translator supervisor trainer sponsor editor planner"),
  much: words("budget invoice deposit rent fee refund bonus estimate grant discount"),
  which: words("vendor supplier carrier contractor insurer lender printer caterer courier broker"),
} as const;

export type Kind = keyof typeof topics;

export const kinds = Object.keys(topics) as readonly Kind[];

/** Message ids are two of these words: the first distinguishes the mails of one mailbox, the second the mailboxes. */
export const idWords = {
  first: words(`
    acorn anvil apron arrow badge bagel banjo barrel basin basket bench biscuit blanket bottle bowl bracelet brick broom
    brush bucket bugle bundle butter button cabin cable camera candle canoe canvas carpet carriage cart chain chair chalk
    chest chisel chowder cider clock cloak cloud coat coin collar corn cotton couch cradle crate crayon crown cup curtain
    cushion dagger desk dish donut door drum easel elbow engine fan feather fence fiddle flag flask flute fork fountain
    frame funnel garlic gate gear glove goblet grain guitar hammer hammock harp hat hatchet helmet hinge honey hook horn
    igloo inkwell jacket jar jelly jug kayak kettle kite knapsack knob ladder ladle lamp lemon lens lever locket loom
    lute magnet mallet mandolin mango mantle marker mask mattress melon mirror mitten mop mortar mug muffin nail napkin
    necklace needle nest noodle notebook nutmeg oar oboe olive onion oven paddle pail pan pancake parcel peach pear
    pedal pencil pepper piano pickle pillow pin pipe pitcher plank plow plum pocket poncho porch pot potato pretzel pump
    pumpkin puppet purse puzzle quilt rack radish raft rake razor ribbon rocket rope saddle salt sandal saucer scarf
    scissors scooter shelf shield shovel sickle skate sled sleeve slipper soap sofa spade spatula spindle spoon stapler
    stool stove strap suitcase sweater sword syrup tablet tambourine tassel teapot tent thimble thread ticket towel
    tractor tray tripod trombone trumpet turnip twine umbrella vase vest violin waffle wagon abacus cobweb doorbell
    fridge goggles keyhole rug tile zipper`),
  second: words(`
    aardvark alpaca ant antelope armadillo baboon badger bat bear beaver bee beetle buzzard camel canary carp cat
    caribou catfish cheetah chicken cicada clam cobra cod cougar cow coyote crab crane cricket crow deer dingo dog
    donkey dove dragonfly duck eagle eel egret elephant elk emu ermine ferret finch flamingo flea flounder fox frog gecko
    gerbil gibbon giraffe gnat goat goose gopher gorilla grouse gull halibut hamster hare hawk hedgehog hen heron herring
    hippo hornet horse hyena ibex iguana impala jackal jackdaw kangaroo koala lamb lemming lemur leopard lion lizard llama
    lobster locust macaw magpie mallard mammoth manatee mantis marmot marten meerkat mink mole mongoose monkey moose
    mosquito moth mouse mule newt ocelot octopus opossum orca ostrich otter owl ox oyster panda parrot peacock pelican
    penguin pheasant pig pigeon pony porcupine puffin quail rabbit raccoon ram rat rooster salmon seal shark sheep shrew
    shrimp skunk sloth snail sparrow spider squid squirrel stork swan tiger toad trout turkey turtle walrus wasp weasel
    whale wolf wombat yak zebra`),
} as const;
