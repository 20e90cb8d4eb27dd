// Reads a GGUF file by ggml's own functions: what it says, and the bytes of its tensors.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libllama.h"

namespace hone {

class GgufFile {
 public:
  /** @throws std::runtime_error when it cannot be read, or is no GGUF file */
  explicit GgufFile(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return path_; }
  std::optional<double> number(const std::string& key) const;
  /** "" where there is none. */
  std::string text(const std::string& key) const;
  bool hasKey(const std::string& key) const;
  /** Type and shape; null where there is none. Remembers that it was asked for. */
  const ggml_tensor* find(const std::string& name) const;
  /** The first tensor that nobody asked for; "" for none. */
  std::string unread() const;
  /** Adds the bytes of a tensor that is there. @throws std::runtime_error */
  void read(const std::string& name, std::vector<char>& into) const;
  /** The numbers of a tensor that is there, of 16 or 32 bits. @throws std::runtime_error */
  std::vector<float> floats(const std::string& name) const;

 private:
  const std::string path_;
  ggml_context* shapes_ = nullptr;
  gguf_context* file_ = nullptr;
  mutable std::set<std::string> asked_;
};

}  // namespace hone
