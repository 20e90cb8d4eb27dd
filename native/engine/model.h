// A GGUF file: loading it, its metadata, and its tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "decoder.h"
#include "libllama.h"

namespace hone {

/** Facts about a loaded model, which stay valid after its weights are freed. */
struct ModelInfo {
  std::string architecture;
  std::string weightType;
  uint64_t parameters = 0;
  int trainedContext = 0;
  int layers = 0;
  bool hasChatTemplate = false;
  std::string chatTemplate;
  /** The one for conversations with tools (`tokenizer.chat_template.tool_use`); empty where the file has none. */
  std::string toolTemplate;
  /** All weights are f32. */
  bool full = false;
  /** Size of one token's K and V in all layers together, in numbers; 0 where layers differ (`recurrent`). */
  uint64_t kvNumbersPerToken = 0;
  /** Its state cannot be rolled back to an earlier token. */
  bool recurrent = false;
};

/** @throws std::runtime_error when this engine cannot run the model */
ModelInfo describe(const llama_model* model);

/** As of a loaded model, without its weights. @throws std::runtime_error when llama.cpp cannot read the file */
ModelInfo describeFile(const std::string& path);

/** Whether a model, or its vocabulary alone, has layers with a state that cannot be rolled back. */
bool carriesState(const llama_model* model);

/**
 * A loaded model.
 *
 * @param repacked weights may be stored for the CPU's own matrix instructions. From such, llama.cpp computes numbers that are not
 * finite, or crashes, where a model that carries a state evaluates several sequences in f16 on a CPU with AMX
 * @throws std::runtime_error with llama.cpp's own reason
 */
llama_model* loadModel(const std::string& path, bool onlyVocabulary, bool useGpu, bool repacked = true);

/** The tokenizer of a model, loaded separately so that it works while the weights are freed. Thread-safe. */
class Vocabulary {
 public:
  explicit Vocabulary(const std::string& path);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int size() const { return size_; }
  /** Of the whole model. */
  bool carriesState() const { return hone::carriesState(model_); }
  const llama_vocab* get() const { return vocab_; }
  /**
   * Ids as of llama_tokenize, which takes time that grows with the square of the special tokens in a text: here the text
   * is split at these first.
   */
  std::vector<Token> tokenize(const std::string& text, bool special) const;
  /** Bytes of the longest token. */
  size_t longest() const { return longest_; }
  /** Bytes of the tokens; those of control tokens only with `special`. Ids must be valid. */
  std::string bytes(const std::vector<Token>& tokens, bool special) const;
  /** -1 where there is none. */
  Token bos() const;
  Token eos() const;
  Token eot() const;
  Token pad() const;
  bool addsBos() const;
  std::string text(Token token) const;
  std::vector<std::pair<std::string, Token>> controlTokens() const;
  /** Texts that are one token wherever they stand, without being control tokens ("user-defined"). */
  std::vector<std::pair<std::string, Token>> addedTokens() const;
  /** Tokens that end a generation. */
  std::vector<Token> endTokens() const;

 private:
  std::vector<std::pair<std::string, Token>> tokensWith(llama_token_attr attribute) const;
  /** A token that is found in a text before the text is tokenised. */
  struct Special {
    Token token;
    std::string text;
    int attributes;
  };

  void append(std::vector<Token>& tokens, const std::string& text) const;

  llama_model* model_;
  const llama_vocab* vocab_;
  int size_;
  size_t longest_ = 0;
  /** Longest first, as llama.cpp looks for them. */
  std::vector<Special> specials_;
};

}  // namespace hone
