import { expect, test } from "vitest";
import { readAddresses, readExchangeAddresses } from "../../../../src/email/import/addresses.js";

test.each([
  ["a@x.org, B@X.org,a@x.org", ["a@x.org", "b@x.org"]],
  ['"Lee, Ann" <ann@x.org>; bob@x.org', ["ann@x.org", "bob@x.org"]],
  ["Team: a@x.org, Bob <b@x.org>;", ["a@x.org", "b@x.org"]],
  ["undisclosed-recipients:;", []],
  [
    "k..allen@enron.com, ..k@enron.com, grant.masson.@enron.com",
    ["k..allen@enron.com", "..k@enron.com", "grant.masson.@enron.com"],
  ],
  ["houston <.ward@enron.com>", [".ward@enron.com"]],
  ["'ann@x.org', \"'bob@x.org'\" <bob@x.org>", ["ann@x.org", "bob@x.org"]],
  ['<"the.desk":@enron.com>, <\'"sbigalow"@enron.com>', ["the.desk@enron.com", "sbigalow@enron.com"]],
  ["tim.o'rourke@enron.com", ["tim.o'rourke@enron.com"]],
  ["ren\u00e9.lazure@enron.com", ["ren\u00e9.lazure@enron.com"]],
  ["cats <breakthrough.>, Ann Lee, @x.org, a@", []],
  ["Lee, Ann </O=X/OU=NA/CN=RECIPIENTS/CN=ALEE>", []],
  ["", []],
])("%s", (header, addresses) => {
  expect(readAddresses([header])).toEqual(addresses);
});

test("several headers of a name are one list", () => {
  expect(readAddresses(["a@x.org", "b@x.org"])).toEqual(["a@x.org", "b@x.org"]);
  expect(readAddresses(undefined)).toEqual([]);
});

test("X-To: real addresses, not the names of Notes", () => {
  expect(readExchangeAddresses(["Vince J Kaminski@ECT, vk@aol.com, Kaminski, Vince </O=ENRON/CN=VK>"])).toEqual([
    "vk@aol.com",
  ]);
  expect(readExchangeAddresses(["All Enron Worldwide@ENRON <??SAll Enron Worldwide@ENRON>"])).toEqual([]);
});
