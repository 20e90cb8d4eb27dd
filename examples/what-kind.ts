/**
 * A whole task in one file, in plain text, for a pretrained model: say what kind of thing a word names.
 *
 *     yarn rollout --task examples/what-kind.ts --expert --n 2 --show
 *     yarn rollout --task examples/what-kind.ts --model smollm2-135m-q4_1 --weights f16 --max-tokens 12 --n 8 --show
 *
 * "What is this: otter?" is answered right by any text that names the kind "animal" and none of the other seven. A model knows the
 * words from its pretraining; reinforcement learning makes it say the kind. No word of a test question is in a training question.
 */
import { defineTask, Random, type Scenario } from "@hone-rl/hone";

const list = (text: string) => text.trim().split(/\s*,\s*/);

/** Words that name one kind of thing alone. */
const KINDS = {
  animal:
    list(`alligator, ant, baboon, badger, bear, beaver, bee, buffalo, butterfly, camel, cat, cheetah, chimpanzee, cow, crocodile,
    crow, deer, dog, dolphin, donkey, eagle, elephant, falcon, fox, frog, gazelle, giraffe, goat, goose, gorilla, hamster, hare,
    hedgehog, hippopotamus, horse, hyena, jaguar, kangaroo, koala, leopard, lion, lizard, llama, mole, monkey, moose, mosquito, moth,
    mouse, octopus, ostrich, otter, owl, panda, parrot, peacock, pelican, penguin, pig, pigeon, rabbit, raccoon, rat, rhinoceros,
    seal, shark, sheep, snake, sparrow, spider, squirrel, swan, tiger, tortoise, walrus, whale, wolf, woodpecker, worm, zebra`),
  food: list(`apple, apricot, asparagus, bacon, bagel, banana, biscuit, bread, broccoli, burger, burrito, butter, cabbage, cake, carrot,
    cauliflower, celery, cheese, cherry, chocolate, cookie, crisps, cucumber, curry, doughnut, garlic, grape, ham, honey, jam,
    ketchup, lasagne, lemon, lentils, lettuce, mango, margarine, marmalade, mayonnaise, melon, muffin, mustard, noodles, oatmeal,
    omelette, onion, pancake, papaya, pasta, peach, peanut, pear, pickle, pie, pineapple, pizza, plum, popcorn, porridge, potato,
    pretzel, pudding, pumpkin, radish, raspberry, ravioli, rice, salad, salami, sandwich, sausage, soup, spaghetti, spinach, steak,
    strawberry, toast, tofu, tomato, waffle, walnut, yoghurt`),
  country:
    list(`Afghanistan, Albania, Algeria, Angola, Argentina, Armenia, Australia, Austria, Bangladesh, Belgium, Bolivia, Botswana,
    Brazil, Bulgaria, Cambodia, Cameroon, Canada, Chile, China, Colombia, Croatia, Cuba, Cyprus, Denmark, Ecuador, Egypt, Estonia,
    Ethiopia, Finland, France, Germany, Ghana, Greece, Guatemala, Haiti, Honduras, Hungary, Iceland, India, Indonesia, Iran, Iraq,
    Ireland, Israel, Italy, Jamaica, Japan, Kazakhstan, Kenya, Laos, Latvia, Lebanon, Libya, Lithuania, Malaysia, Mali, Mexico,
    Mongolia, Morocco, Mozambique, Nepal, Nicaragua, Nigeria, Norway, Pakistan, Panama, Paraguay, Peru, Poland, Portugal, Romania,
    Russia, Senegal, Slovakia, Slovenia, Somalia, Spain, Sudan, Sweden, Switzerland, Syria, Thailand, Tunisia, Uganda, Ukraine,
    Uruguay, Venezuela, Vietnam, Zambia, Zimbabwe`),
  instrument:
    list(`accordion, bagpipes, balalaika, banjo, bassoon, bongo, bugle, castanets, cello, clarinet, clavichord, cornet,
    cymbals, didgeridoo, drum, dulcimer, fiddle, flute, glockenspiel, gong, guitar, harmonica, harmonium, harp, harpsichord, kazoo,
    lute, lyre, mandolin, maracas, marimba, oboe, ocarina, panpipes, piano, piccolo, saxophone, sitar, sousaphone, synthesizer,
    tambourine, timpani, trombone, trumpet, tuba, ukulele, vibraphone, viola, violin, xylophone, zither`),
  vehicle:
    list(`aeroplane, airship, ambulance, bicycle, boat, bulldozer, bus, canoe, car, caravan, carriage, catamaran, dinghy, ferry,
    forklift, freighter, glider, gondola, helicopter, hovercraft, jeep, jet, kayak, limousine, lorry, minibus, moped, motorboat,
    motorcycle, raft, rickshaw, rocket, rowboat, sailboat, scooter, ship, sledge, snowmobile, spaceship, speedboat, steamship,
    submarine, taxi, tractor, train, tram, tricycle, trolleybus, truck, van, wagon, yacht, zeppelin`),
  tool: list(`anvil, awl, axe, broom, chisel, clamp, crowbar, drill, file, hacksaw, hammer, hatchet, hoe, jackhammer, knife, ladder,
    lathe, lever, mallet, mop, nail, paintbrush, pickaxe, pitchfork, pliers, pulley, rake, ruler, sander, sandpaper, saw, scalpel,
    scissors, screwdriver, scythe, shears, shovel, sickle, sledgehammer, spade, spanner, spatula, stapler, tongs, trestle, trowel,
    tweezers, vice, wheelbarrow, wrench`),
  clothing:
    list(`anorak, apron, belt, bikini, blazer, blouse, bonnet, boots, bra, cap, cape, cardigan, cloak, coat, dress, gloves, gown,
    hat, headscarf, hoodie, jacket, jeans, jersey, jumper, kilt, kimono, leggings, mittens, nightgown, overalls, overcoat, pants,
    poncho, pullover, pyjamas, raincoat, robe, sandals, sari, scarf, shawl, shirt, shoes, shorts, skirt, slippers, sneakers, socks,
    stockings, sweater, sweatshirt, swimsuit, tights, trousers, tunic, turban, tuxedo, underwear, vest, waistcoat`),
  profession:
    list(`accountant, actor, architect, astronaut, astronomer, baker, banker, barber, biologist, blacksmith, bricklayer, butcher,
    butler, carpenter, cashier, chef, chemist, cobbler, composer, dentist, designer, detective, diplomat, doctor, economist, editor,
    electrician, engineer, farmer, firefighter, fisherman, florist, gardener, geologist, hairdresser, historian, janitor, jeweller,
    journalist, judge, lawyer, lecturer, librarian, locksmith, mathematician, mechanic, midwife, miner, novelist, nurse, optician,
    painter, pharmacist, philosopher, photographer, physicist, pilot, plumber, postman, psychologist, reporter, sailor, secretary,
    shepherd, soldier, surgeon, tailor, teacher, translator, veterinarian, waiter, weaver, welder, zoologist`),
} as const;

type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as Kind[];

interface Thing extends Scenario {
  readonly kind: Kind;
  readonly word: string;
}

/** Every word once. It is in the same split whatever the seed: half of each kind's words are for tests. */
const THINGS: readonly Thing[] = NAMES.flatMap((kind) =>
  new Random("what kind", kind).shuffle(KINDS[kind]).map((word, index) => ({
    id: word,
    split: index % 2 === 0 ? ("test" as const) : ("train" as const),
    question: `What is this: ${word}?`,
    kind,
    word,
  })),
);

/** The kinds that a text names. */
const kindsIn = (text: string) => NAMES.filter((kind) => text.toLowerCase().includes(kind));

export default defineTask<Thing>({
  name: "what-kind",
  description: "Say in plain text what kind of thing a word names",
  scenarios: ({ seed }) => new Random("what kind", seed).shuffle(THINGS),
  prompt: ({ question }) => [
    { role: "system", content: `Answer with one word: ${NAMES.slice(0, -1).join(", ")} or ${NAMES.at(-1)}.` },
    { role: "user", content: question },
  ],
  tools: [],

  /** A text counts as far as it was written: a model that has named the kind need not come to an end. */
  reward: ({ messages }, { kind }) => {
    const named = kindsIn(messages.at(-1)?.content ?? "");
    const success = named.length === 1 && named[0] === kind;
    return { reward: success ? 1 : 0, success, parts: { right: success ? 1 : 0, named: named.length === 1 ? 1 : 0 } };
  },

  /** Its mistake is to name any kind. */
  *expert({ kind }, random, { mistakes = 0 }) {
    const blind = random.chance(typeof mistakes === "number" ? mistakes : (mistakes.blind ?? 0));
    yield blind ? random.pick(NAMES) : kind;
  },
});
