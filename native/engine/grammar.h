// Turns that obey a GBNF grammar, as a whole or from a mark on. The grammar itself is llama.cpp's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraint.h"
#include "model.h"

namespace hone {

struct GrammarSpec {
  /** GBNF; its first rule is `root`. */
  std::string rules;

  /** Marks around thoughts, which come before everything else and are free. Empty: there are none. */
  std::string thoughtsOpen;
  std::string thoughtsClose;
  /** The turn begins inside thoughts. */
  bool opened = false;

  /**
   * The grammar begins only with one of the marks, and a turn without them is free. Else it begins behind the thoughts, and
   * the turn cannot end before it does. A space in a mark stands for any white space, or none.
   */
  bool lazy = false;
  std::vector<std::string> marks;
  /** Marks only where nothing but white space is before them. */
  std::vector<std::string> firstMarks;

  /** Tokens that end the turn. */
  std::vector<Token> stop;
  /** Tokens of the turn so far. */
  std::vector<Token> before;
};

/**
 * For one turn. The vocabulary must outlive it.
 * @throws std::runtime_error when llama.cpp cannot read the rules, or the tokens before do not obey them
 */
std::shared_ptr<Constraint> newGrammar(const Vocabulary& vocabulary, GrammarSpec spec);

}  // namespace hone
