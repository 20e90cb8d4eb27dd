#include "model.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace hone {
namespace {

std::string meta(const llama_model* model, const std::string& key) {
  char text[256];
  return libLlama()->llama_model_meta_val_str(model, key.c_str(), text, sizeof text) < 0 ? "" : text;
}

/** Size of a head's keys or values. */
uint64_t headSize(const llama_model* model, const std::string& key) {
  const std::string given = meta(model, key);
  const LibLlama& lib = *libLlama();
  return given.empty() ? lib.llama_model_n_embd(model) / std::max(1, lib.llama_model_n_head(model)) : std::stoull(given);
}

/** Shares of the cards; as many as llama.cpp knows at most (llama_max_devices). */
constexpr float kFirstCard[16] = {1.0f};

}  // namespace

bool carriesState(const llama_model* model) {
  return libLlama()->llama_model_is_recurrent(model) || libLlama()->llama_model_is_hybrid(model);
}

llama_model* loadModel(const std::string& path, bool onlyVocabulary, bool useGpu, bool repacked) {
  const LibLlama& lib = *libLlama();
  llama_model_params params = lib.llama_model_default_params();
  params.vocab_only = onlyVocabulary;
  params.use_extra_bufts = repacked;
  params.n_gpu_layers = useGpu ? -1 : 0;
  if (useGpu) {
    // The whole model on the first card; by default llama.cpp spreads the layers over all cards.
    params.split_mode = LLAMA_SPLIT_MODE_NONE;
    params.main_gpu = 0;
    // Otherwise llama.cpp divides by the card's free bytes: a full card would be an index out of range, not a lack of memory.
    params.tensor_split = kFirstCard;
  }
  forgetLlamaErrors();
  llama_model* model = lib.llama_model_load_from_file(path.c_str(), params);
  if (!model) throwLlamaError(path + " cannot be loaded");
  return model;
}

ModelInfo describe(const llama_model* model) {
  const LibLlama& lib = *libLlama();
  ModelInfo info;
  info.architecture = meta(model, "general.architecture");
  if (lib.llama_model_has_encoder(model)) {
    throw std::runtime_error(info.architecture + " models have an encoder; the engine runs decoders only");
  }
  // "all F32" is the one name with a word before the type.
  const std::string type = lib.llama_ftype_name(lib.llama_model_ftype(model));
  info.weightType = type.rfind("all ", 0) == 0 ? type.substr(4) : type;
  info.full = lib.llama_model_ftype(model) == LLAMA_FTYPE_ALL_F32;
  info.parameters = lib.llama_model_n_params(model);
  info.trainedContext = lib.llama_model_n_ctx_train(model);
  info.layers = lib.llama_model_n_layer(model);
  const char* chatTemplate = lib.llama_model_chat_template(model, nullptr);
  info.hasChatTemplate = chatTemplate != nullptr;
  if (chatTemplate) info.chatTemplate = chatTemplate;
  const char* toolTemplate = lib.llama_model_chat_template(model, "tool_use");
  if (toolTemplate) info.toolTemplate = toolTemplate;
  info.recurrent = carriesState(model);
  if (info.recurrent) return info;
  const std::string attention = info.architecture + ".attention.";
  const uint64_t perHead = headSize(model, attention + "key_length") + headSize(model, attention + "value_length");
  const uint64_t heads = static_cast<uint64_t>(lib.llama_model_n_head_kv(model));
  info.kvNumbersPerToken = perHead * heads * static_cast<uint64_t>(lib.llama_model_n_layer(model));
  return info;
}

ModelInfo describeFile(const std::string& path) {
  const LibLlama& lib = *libLlama();
  llama_model_params params = lib.llama_model_default_params();
  params.no_alloc = true;
  params.load_mode = LLAMA_LOAD_MODE_NONE;
  params.n_gpu_layers = 0;
  forgetLlamaErrors();
  const std::unique_ptr<llama_model, void (*)(llama_model*)> model(
      lib.llama_model_load_from_file(path.c_str(), params), [](llama_model* loaded) { libLlama()->llama_model_free(loaded); });
  if (!model) throwLlamaError(path + " cannot be read");
  return describe(model.get());
}

Vocabulary::Vocabulary(const std::string& path)
    : model_(loadModel(path, true, false)),
      vocab_(libLlama()->llama_model_get_vocab(model_)),
      size_(libLlama()->llama_vocab_n_tokens(vocab_)) {
  constexpr int kFound = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
  for (Token token = 0; token < size_; token++) {
    longest_ = std::max(longest_, bytes({token}, true).size());
    const int attributes = libLlama()->llama_vocab_get_attr(vocab_, token);
    if ((attributes & kFound) && !text(token).empty()) specials_.push_back({token, text(token), attributes});
  }
  const auto longer = [](const Special& a, const Special& b) { return a.text.size() > b.text.size(); };
  std::stable_sort(specials_.begin(), specials_.end(), longer);
}

Vocabulary::~Vocabulary() { libLlama()->llama_model_free(model_); }

void Vocabulary::append(std::vector<Token>& tokens, const std::string& text) const {
  const size_t before = tokens.size();
  const auto length = static_cast<int32_t>(text.size());
  auto room = static_cast<int32_t>(text.size() + 8);
  int count = -room;
  // A second time where the ids are more than there is room for.
  for (int attempt = 0; attempt < 2 && count < 0; attempt++) {
    room = -count;
    tokens.resize(before + static_cast<size_t>(room));
    count = libLlama()->llama_tokenize(vocab_, text.data(), length, tokens.data() + before, room, false, false);
  }
  if (count < 0) throw std::runtime_error("llama.cpp cannot tokenize this text");
  tokens.resize(before + static_cast<size_t>(count));
}

std::vector<Token> Vocabulary::tokenize(const std::string& text, bool special) const {
  /** A special token, or with -1 text between such. */
  struct Piece {
    std::string_view text;
    Token token;
  };
  const auto isSpace = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  std::vector<Piece> pieces{{text, -1}};
  for (const Special& found : specials_) {
    if (!special && (found.attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN))) continue;
    if (text.find(found.text) == std::string::npos) continue;
    std::vector<Piece> split;
    for (const Piece& piece : pieces) {
      std::string_view rest = piece.text;
      for (size_t at; piece.token < 0 && (at = rest.find(found.text)) != std::string_view::npos;) {
        std::string_view left = rest.substr(0, at);
        rest.remove_prefix(at + found.text.size());
        if (found.attributes & LLAMA_TOKEN_ATTR_LSTRIP) {
          while (!left.empty() && isSpace(left.back())) left.remove_suffix(1);
        }
        if (found.attributes & LLAMA_TOKEN_ATTR_RSTRIP) {
          while (!rest.empty() && isSpace(rest.front())) rest.remove_prefix(1);
        }
        if (!left.empty()) split.push_back({left, -1});
        split.push_back({{}, found.token});
      }
      if (piece.token >= 0) split.push_back(piece);
      else if (!rest.empty()) split.push_back({rest, -1});
    }
    pieces = std::move(split);
  }
  std::vector<Token> tokens;
  for (const Piece& piece : pieces) {
    if (piece.token >= 0) tokens.push_back(piece.token);
    else append(tokens, std::string(piece.text));
  }
  return tokens;
}

std::string Vocabulary::bytes(const std::vector<Token>& tokens, bool special) const {
  std::string all;
  std::string piece(64, '\0');
  for (Token token : tokens) {
    int length = libLlama()->llama_token_to_piece(vocab_, token, piece.data(), static_cast<int>(piece.size()), 0, special);
    if (length < 0) {
      piece.resize(static_cast<size_t>(-length));
      length = libLlama()->llama_token_to_piece(vocab_, token, piece.data(), static_cast<int>(piece.size()), 0, special);
    }
    all.append(piece, 0, static_cast<size_t>(length));
  }
  return all;
}

Token Vocabulary::bos() const { return libLlama()->llama_vocab_bos(vocab_); }
Token Vocabulary::eos() const { return libLlama()->llama_vocab_eos(vocab_); }
Token Vocabulary::eot() const { return libLlama()->llama_vocab_eot(vocab_); }
Token Vocabulary::pad() const { return libLlama()->llama_vocab_pad(vocab_); }
bool Vocabulary::addsBos() const { return libLlama()->llama_vocab_get_add_bos(vocab_); }

std::string Vocabulary::text(Token token) const {
  return token < 0 ? "" : libLlama()->llama_vocab_get_text(vocab_, token);
}

std::vector<std::pair<std::string, Token>> Vocabulary::tokensWith(llama_token_attr attribute) const {
  std::vector<std::pair<std::string, Token>> found;
  for (Token token = 0; token < size_; token++) {
    if (libLlama()->llama_vocab_get_attr(vocab_, token) & attribute) found.emplace_back(text(token), token);
  }
  return found;
}

std::vector<std::pair<std::string, Token>> Vocabulary::controlTokens() const {
  return tokensWith(LLAMA_TOKEN_ATTR_CONTROL);
}

std::vector<std::pair<std::string, Token>> Vocabulary::addedTokens() const {
  return tokensWith(LLAMA_TOKEN_ATTR_USER_DEFINED);
}

std::vector<Token> Vocabulary::endTokens() const {
  std::vector<Token> end;
  for (Token token = 0; token < size_; token++) {
    if (libLlama()->llama_vocab_is_eog(vocab_, token)) end.push_back(token);
  }
  return end;
}

}  // namespace hone
