/**
 * What the tiny model is shown before reinforcement learning: four kinds of short conversation in the email task's form,
 * each of two calls. What the task asks, to search, read what was found, and answer from it, takes three calls
 * and is in none of them.
 */

/** Of every lesson. */
export const CALLS = 2;

const find = (asked) => ({ name: "search_inbox", arguments: { keywords: [asked.facts.project, asked.facts.topic] } });
const read = (id) => ({ name: "read_email", arguments: { message_id: id } });
const answer = (text, id) => ({
  name: "return_final_answer",
  arguments: { answer: text, reference_message_ids: [id] },
});

const about = ({ facts: { project, topic } }, random) =>
  random.pick([`the ${project} ${topic}`, `the ${topic} for ${project}`]);

/** Each: what the user says instead of the scenario's question, and the two calls that it takes. */
export const lessons = {
  /** Finds a mail by a search and says which one it is. It is not read. */
  find: {
    question: (asked, random) => `${random.pick(["Which mail is about", "In which mail is"])} ${about(asked, random)}?`,
    calls: (asked, [id]) => [find(asked), answer(id, id)],
  },
  /** The same, asked with the task's own question. */
  name: {
    question: (asked, random) =>
      `${asked.question} ${random.pick(["Which mail says it?", "In which mail is it?", "Name the mail."])}`,
    calls: (asked, [id]) => [find(asked), answer(id, id)],
  },
  /** Finds a mail and opens it; the conversation ends there, and nothing is answered. */
  open: {
    question: (asked, random) =>
      `${asked.question} ${random.pick(["Open the mail.", "Find the mail and read it.", "Read the mail that says it."])}`,
    calls: (asked, [id]) => [find(asked), read(id)],
  },
  /** Is told which mail it is: reads that, answers from it. Nothing is searched. */
  tell: {
    question: (asked, random) =>
      `${asked.question} ${random.pick(["It is in the mail", "Read the mail", "See"])} ${asked.message_ids[0]}.`,
    calls: (asked, [id]) => [read(id), answer(asked.answer, id)],
  },
};

/** The scenario as the lesson asks it, and the task with an expert who makes the lesson's calls. */
export function lessonOf(task, scenario, name, random) {
  const lesson = lessons[name];
  const asked = { ...scenario, question: lesson.question(scenario, random) };
  function* expert() {
    for (const call of lesson.calls(scenario, scenario.message_ids)) yield [call];
  }
  return { task: { ...task, expert }, scenario: asked };
}
