/** Before every test file: what hone would read from this shell's environment is no part of a test. */
for (const name of Object.keys(process.env)) {
  if (/^(HONE_(?!TEST_)|HF_|OPENAI_)/.test(name)) delete process.env[name];
}
