/** Runs before every test file: removes the variables of this shell that hone would read. */
for (const name of Object.keys(process.env)) {
  if (/^(HONE_(?!TEST_)|HF_|OPENAI_)/.test(name)) delete process.env[name];
}
