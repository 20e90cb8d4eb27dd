#include "grammar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace hone {
namespace {

constexpr float kRefused = -std::numeric_limits<float>::infinity();
/** Bytes of white space before thoughts at most: a grammar has its own limit for them. */
constexpr size_t kMostLead = 2;
/** Bytes of a mark with white space in it at most: llama.cpp looks for it by std::regex, which recurses for each. */
constexpr size_t kMostBegun = 4096;

bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

constexpr const char* kDisobeyed = "the turn so far does not obey the grammar";

enum class Match { none, partial, whole };

/** Whether a mark stands at a position of a text, or may when the text has gone on. */
Match matchAt(const std::string& text, size_t at, const std::string& mark) {
  for (const char wanted : mark) {
    if (wanted == ' ') {
      while (at < text.size() && isSpace(text[at])) at++;
      continue;
    }
    if (at == text.size()) return Match::partial;
    if (text[at++] != wanted) return Match::none;
  }
  return Match::whole;
}

bool startsWith(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

struct SamplerFree {
  void operator()(llama_sampler* sampler) const { libLlama()->llama_sampler_free(sampler); }
};
using HeldSampler = std::unique_ptr<llama_sampler, SamplerFree>;

/** The part of a turn before its grammar begins. */
struct Prelude {
  enum class Phase { beginning, thinking, said };

  Phase phase = Phase::beginning;
  /** The bytes of `tokens`. Those before `from` are settled: no mark begins there. */
  std::string text;
  size_t from = 0;
  std::vector<std::pair<Token, size_t>> tokens;
  /** Nothing but white space was said. */
  bool fresh = true;

  void add(Token token, const std::string& bytes) {
    tokens.emplace_back(token, bytes.size());
    text += bytes;
  }

  /** Forgets tokens that are settled. */
  void forget() {
    size_t done = 0;
    size_t bytes = 0;
    while (done < tokens.size() && bytes + tokens[done].second <= from) bytes += tokens[done++].second;
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(done));
    text.erase(0, bytes);
    from -= bytes;
  }
};

class Grammar final : public Constraint {
 public:
  Grammar(const Vocabulary& vocabulary, GrammarSpec spec) : vocabulary_(vocabulary), spec_(std::move(spec)) {
    HeldSampler sampler(libLlama()->llama_sampler_init_grammar(vocabulary_.get(), spec_.rules.c_str(), "root"));
    if (!sampler) throw std::runtime_error("llama.cpp cannot read the grammar");
    if (spec_.opened) prelude_.phase = Prelude::Phase::thinking;
    if (settle(prelude_)) sampler_ = std::move(sampler);
    else if (!spec_.lazy && !spec_.opened) unthinking_ = std::move(sampler);
    for (Token token : spec_.before) {
      if (!allows(token)) throw std::runtime_error(kDisobeyed);
      accept(token);
    }
  }

  bool allows(Token token) override {
    if (sampler_) return permits(*sampler_, token);
    if (isEnd(token)) return spec_.lazy;
    return (unthinking_ && permits(*unthinking_, token)) || precedes(token);
  }

  void mask(std::vector<float>& logits) override {
    const auto count = static_cast<Token>(logits.size());
    std::vector<char> allowed(logits.size());
    if (llama_sampler* const sampler = sampler_ ? sampler_.get() : unthinking_.get()) {
      std::vector<llama_token_data> all(logits.size());
      for (Token token = 0; token < count; token++) all[token] = {token, 0, 0};
      apply(*sampler, all);
      for (const llama_token_data& one : all) allowed[one.id] = !std::isinf(one.logit);
      for (Token token : spec_.stop) allowed[token] = allowed[token] && endsText(token);
    }
    for (Token token = 0; token < count; token++) {
      if (!allowed[token] && !sampler_) allowed[token] = isEnd(token) ? spec_.lazy : precedes(token);
      if (!allowed[token]) logits[token] = kRefused;
    }
  }

  void accept(Token token) override {
    if (sampler_) return libLlama()->llama_sampler_accept(sampler_.get(), token);
    if (isEnd(token)) return;
    if (unthinking_ && permits(*unthinking_, token)) libLlama()->llama_sampler_accept(unthinking_.get(), token);
    else unthinking_.reset();
    prelude_.add(token, bytesOf(token));
    if (settle(prelude_)) {
      sampler_ = prelude_.from == 0 && !spec_.lazy ? std::move(unthinking_) : begun(prelude_);
      if (!sampler_) throw std::runtime_error(kDisobeyed);
    } else {
      prelude_.forget();
    }
    if (prelude_.phase != Prelude::Phase::beginning) unthinking_.reset();
  }

 private:
  std::string bytesOf(Token token) const { return vocabulary_.bytes({token}, true); }

  bool isEnd(Token token) const {
    return std::find(spec_.stop.begin(), spec_.stop.end(), token) != spec_.stop.end() || endsText(token);
  }

  /** llama.cpp takes a stop token for the end of a text only if the model's file says that it is one. */
  bool endsText(Token token) const { return libLlama()->llama_vocab_is_eog(vocabulary_.get(), token); }

  static void apply(llama_sampler& sampler, std::vector<llama_token_data>& candidates) {
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    libLlama()->llama_sampler_apply(&sampler, &array);
  }

  bool permits(llama_sampler& sampler, Token token) const {
    if (isEnd(token) && !endsText(token)) return false;
    std::vector<llama_token_data> one{{token, 0, 0}};
    apply(sampler, one);
    return !std::isinf(one[0].logit);
  }

  /** Whether a token, not one that ends the turn, may come before the grammar begins, or with its beginning in it. */
  bool precedes(Token token) const {
    Prelude next = prelude_;
    next.add(token, bytesOf(token));
    if (!settle(next)) return next.phase != Prelude::Phase::beginning || spec_.lazy || leadOf(next) <= kMostLead;
    // Without thoughts the grammar begins with the turn: `unthinking_`.
    return (spec_.lazy || next.from > 0) && begun(next) != nullptr;
  }

  static size_t leadOf(const Prelude& prelude) {
    size_t lead = 0;
    while (lead < prelude.text.size() && isSpace(prelude.text[lead])) lead++;
    return lead;
  }

  /** Looks for the beginning of the grammar in what is not settled; true when it begins, at `from`. */
  bool settle(Prelude& prelude) const {
    if (prelude.phase == Prelude::Phase::beginning) {
      const std::string said = prelude.text.substr(leadOf(prelude));
      const std::string& open = spec_.thoughtsOpen;
      if (open.empty()) prelude.phase = Prelude::Phase::said;
      else if (said.size() < open.size() && startsWith(open, said)) return false;
      else if (!startsWith(said, open)) prelude.phase = Prelude::Phase::said;
      else {
        prelude.phase = Prelude::Phase::thinking;
        prelude.from = prelude.text.size() - said.size() + open.size();
      }
    }
    if (prelude.phase == Prelude::Phase::thinking) {
      const std::string& close = spec_.thoughtsClose;
      const size_t at = prelude.text.find(close, prelude.from);
      if (at == std::string::npos) {
        const size_t tail = std::min(prelude.text.size(), close.size() - 1);
        prelude.from = std::max(prelude.from, prelude.text.size() - tail);
        return false;
      }
      prelude.from = at + close.size();
      prelude.phase = Prelude::Phase::said;
    }
    return !spec_.lazy || findsMark(prelude);
  }

  bool findsMark(Prelude& prelude) const {
    const std::string& text = prelude.text;
    for (; prelude.from < text.size(); prelude.from++) {
      Match best = Match::none;
      const auto look = [&](const std::vector<std::string>& marks) {
        for (const std::string& mark : marks) best = std::max(best, matchAt(text, prelude.from, mark));
      };
      look(spec_.marks);
      if (prelude.fresh) look(spec_.firstMarks);
      if (best != Match::none) return best == Match::whole;
      if (!isSpace(text[prelude.from])) prelude.fresh = false;
    }
    return false;
  }

  /** The grammar after the text from `from` on; null when that does not obey it. */
  HeldSampler begun(const Prelude& prelude) const {
    const LibLlama& lib = *libLlama();
    const size_t length = prelude.text.size() - prelude.from;
    // llama.cpp accepts a part of a character unchecked. Nothing with which a grammar of ours begins needs one.
    if (length > 0 && static_cast<unsigned char>(prelude.text.back()) >= 0x80) return nullptr;
    if (length == 0) return HeldSampler(lib.llama_sampler_init_grammar(vocabulary_.get(), spec_.rules.c_str(), "root"));
    if (length > kMostBegun) return nullptr;
    // A grammar's sampler takes whole tokens, and only a lazy one also the rest of a token in which it begins. This
    // pattern is met by the text of exactly the tokens from that one on.
    size_t skipped = prelude.from, first = 0;
    while (skipped >= prelude.tokens[first].second) skipped -= prelude.tokens[first++].second;
    const std::string pattern = "^[\\s\\S]{" + std::to_string(skipped) + "}([\\s\\S]{" + std::to_string(length) + "})$";
    const char* patterns[] = {pattern.c_str()};
    HeldSampler sampler(lib.llama_sampler_init_grammar_lazy_patterns(vocabulary_.get(), spec_.rules.c_str(), "root",
                                                                     patterns, 1, nullptr, 0));
    if (!sampler) throw std::runtime_error("llama.cpp cannot read the grammar");
    try {
      for (; first < prelude.tokens.size(); first++) lib.llama_sampler_accept(sampler.get(), prelude.tokens[first].first);
    } catch (const std::runtime_error&) {
      return nullptr;
    }
    return sampler;
  }

  const Vocabulary& vocabulary_;
  const GrammarSpec spec_;
  Prelude prelude_;
  /** Null before the grammar begins. */
  HeldSampler sampler_;
  /** While it is not known whether the turn begins with thoughts: the grammar of a turn without. Null if it cannot be one. */
  HeldSampler unthinking_;
};

}  // namespace

std::shared_ptr<Constraint> newGrammar(const Vocabulary& vocabulary, GrammarSpec spec) {
  return std::make_shared<Grammar>(vocabulary, std::move(spec));
}

}  // namespace hone
