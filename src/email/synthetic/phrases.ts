/**
 * The sentences of synthetic mails and questions. `{p}` is the project, `{t}` the topic, `{a}` the answer, `{n}` a
 * person. A mail is one paragraph, since a line break would reach the model escaped, attached to a name.
 *
 * A mail with a decision names project and topic in its lead and the answer two sentences later, at least 15 words on.
 * A search shows 15 words around its keywords, so it shows the subject of a mail but never the answer.
 */
import type { Kind } from "./pools.js";

export const greetings = ["Hi {n},", "Hello {n},", "Dear {n},"];
export const closings = ["Best, {n}", "Regards, {n}", "Thanks, {n}", "Cheers, {n}"];

/** Leads: the only sentences that name project and topic. The text after "lead" depends on the lead alone. */
export const leads = {
  decided: [
    "good news about the {p} {t}.",
    "we have an answer on the {p} {t} at last.",
    "the open point about the {t} for {p} is settled.",
    "you asked me about the {p} {t}.",
    "here is what we decided on the {t} for {p}.",
  ],
  asking: [
    "do you know anything about the {p} {t} yet?",
    "could you find out about the {t} for {p}?",
    "is there any news on the {p} {t}?",
  ],
  undecided: [
    "there is still no word on the {p} {t}.",
    "sorry, the {t} for {p} is still open.",
    "nobody could tell me anything about the {p} {t}.",
  ],
  thanking: [
    "thank you for the note on the {p} {t}.",
    "this was helpful, I mean your mail on the {t} for {p}.",
    "I got your message about the {p} {t}.",
  ],
  changed: [
    "there is a change to the {p} {t}.",
    "we had to think again about the {t} for {p}.",
    "please forget what I wrote about the {p} {t}.",
  ],
} as const;

/** Like the answers, these contain no word of the questions, since the answer follows directly. */
const settledMiddles = [
  "I went through the whole file with the team this morning and in the end nobody had any objection left.",
  "It took three long calls and a good deal of patience to get everybody here to agree on one thing.",
  "Sorry that this took so long, but half of the office was away with the flu until late last week.",
  "As you know we had several options on the table, and all of them looked quite good at first sight.",
  "Please keep this to yourself for now, since two of the managers have not seen any of it so far.",
  "I wanted to write to you before you hear it in the hallway, as people have started to talk about it.",
  "There was a lot of back and forth between legal and finance, and I am glad that we are done with it.",
  "I tried to call you twice this afternoon, but your line was busy, so I am sending you a short mail.",
  "We looked at it from every side in our weekly round, and the others think that this is a sound choice.",
  "My notes from last month turned out to be wrong, so please use nothing but this one from now on.",
  "The people from the other floor had their doubts for a while, but they came round in the end as well.",
  "I know that you have been waiting for this, and I will spare you the long story behind it all.",
];

/** Sentences between lead and last sentence: at least 15 words each. */
export const middles: Readonly<Record<keyof typeof leads, readonly string[]>> = {
  decided: settledMiddles,
  changed: settledMiddles,
  asking: [
    "I have looked through all my mail of the last two months and found nothing but talk and good wishes.",
    "Somebody in the hallway said that you were in the room when they spoke about it earlier this week.",
    "The board wants a list of all open points from me by the end of the week, and this one is on it.",
    "I tried to reach you on the phone this morning, but your line was busy every time that I called.",
    "My team has to book a few things around it, and everything gets more expensive the longer we wait.",
  ],
  undecided: [
    "Legal wants to see the papers first, and they are not known for being quick when it is warm outside.",
    "We talked about it for an hour in our weekly round, and in the end everybody had a different opinion.",
    "The managers are all on the road this week, and none of them likes to settle such things on the phone.",
    "I have sent two reminders to the people upstairs, and all I got back was that they are looking into it.",
    "Two of the options are gone by now, and the one that is left is not what most of us had hoped for.",
  ],
  thanking: [
    "I was away for two days and have only now found the time to read everything that came in meanwhile.",
    "You have saved me a lot of work, since I was about to ask half of the office the very same thing.",
    "Everybody here was glad to have it in writing at last, and I owe you a good coffee for the trouble.",
    "We had feared that it would come out in another way, so there was quite some relief in our corner.",
    "I have put it into my notes where I can find it, so there is no need to send it to me once again.",
  ],
};

/**
 * Sentences with the answer. They fit every topic of their kind, which they do not name, and contain no word of the
 * questions that a search might use (day, place, name ...), since that search would show the answer.
 */
export const answers: Readonly<Record<Kind, readonly string[]>> = {
  when: ["It will be on {a}.", "It is set for {a}.", "We settled on {a}.", "Please keep {a} free for it."],
  where: ["It will be in {a}.", "We are going to {a} for it.", "We chose {a} for it.", "We booked rooms in {a}."],
  who: ["It will be {a}.", "The choice fell on {a}.", "The job goes to {a}.", "We have asked {a} to do it."],
  much: ["It comes to {a} in total.", "The final figure is {a}.", "We agreed on {a}.", "Finance signed off on {a}."],
  which: [
    "We went with {a}.",
    "The contract goes to {a}.",
    "The best offer came from {a}.",
    "Legal has signed with {a}.",
  ],
};

/** Sentences in place of an answer, where there is none. */
export const noAnswers = {
  asking: ["I need it for my plans.", "A short reply would be enough.", "The others keep asking me as well."],
  undecided: [
    "I will write again when I hear more.",
    "Please be patient for a few more days.",
    "Ask me again next week.",
  ],
  thanking: ["I have passed it on to the others.", "That is all I need for now.", "I will plan with it from here."],
} as const;

export const tails = [
  "Let me know if that works for you.",
  "Call me with any questions.",
  "We can talk more next week.",
  "Have a good weekend.",
  "I will send the papers soon.",
];

/** Mails about a project without a question or answer, which mention a person who is an answer elsewhere. */
export const chats = [
  "the people on {p} did great work this week. I met {n} at the coffee machine and heard only kind words about them. Maybe we should bring a cake one of these days.",
  "I will be out of the office until Thursday. If anything comes up on {p}, please ask {n}, since all my notes are there and the numbers are in better hands than mine.",
  "the monthly report for {p} is on the shared drive now. I have asked {n} to read it before the board does, so please leave the second chapter as it is for now.",
  "the copier on our floor is broken again, so I have put the {p} slides in your drawer by way of {n}. The last page is missing, but nobody ever reads that one.",
];

export const subjects = {
  decided: ["{p}", "{p} news", "About the {t}", "The {t}", "Update", "Good to know"],
  asking: ["{p}", "Question about {p}", "The {t}", "A question"],
  undecided: ["{p}", "{p} update", "About the {t}", "Quick note"],
  changed: ["{p}", "{p} again", "The {t}", "A change"],
  chat: ["{p}", "{p} and so on", "Quick note", "This week"],
} as const;

export const questions: Readonly<Record<Kind, readonly string[]>> = {
  when: ["When is the {p} {t}?", "What is the date of the {t} for {p}?", "On which day is the {p} {t}?"],
  where: ["Where is the {p} {t}?", "In which city is the {t} for {p}?", "What is the place of the {p} {t}?"],
  who: ["Who is the {p} {t}?", "Who will be the {t} for {p}?", "What is the name of the {p} {t}?"],
  much: ["How much is the {p} {t}?", "What is the amount of the {t} for {p}?", "How large is the {p} {t}?"],
  which: ["Which company is the {p} {t}?", "Which company is the {t} for {p}?", "What company will be the {p} {t}?"],
};
