#include "gguf_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace hone {

GgufFile::GgufFile(const std::string& path) : path_(path) {
  gguf_init_params params{};
  params.no_alloc = true;
  params.ctx = &shapes_;
  file_ = libLlama()->gguf_init_from_file(path.c_str(), params);
  if (!file_) throw std::runtime_error(path + " cannot be read as a GGUF file");
}

GgufFile::~GgufFile() {
  libLlama()->gguf_free(file_);
  libLlama()->ggml_free(shapes_);
}

bool GgufFile::hasKey(const std::string& key) const { return libLlama()->gguf_find_key(file_, key.c_str()) >= 0; }

std::optional<double> GgufFile::number(const std::string& key) const {
  const LibLlama& lib = *libLlama();
  const int64_t at = lib.gguf_find_key(file_, key.c_str());
  if (at < 0) return std::nullopt;
  switch (lib.gguf_get_kv_type(file_, at)) {
    case GGUF_TYPE_UINT32:
      return lib.gguf_get_val_u32(file_, at);
    case GGUF_TYPE_FLOAT32:
      return static_cast<double>(lib.gguf_get_val_f32(file_, at));
    default:
      return std::nullopt;
  }
}

std::string GgufFile::text(const std::string& key) const {
  const LibLlama& lib = *libLlama();
  const int64_t at = lib.gguf_find_key(file_, key.c_str());
  return at >= 0 && lib.gguf_get_kv_type(file_, at) == GGUF_TYPE_STRING ? lib.gguf_get_val_str(file_, at) : "";
}

const ggml_tensor* GgufFile::find(const std::string& name) const {
  asked_.insert(name);
  return libLlama()->ggml_get_tensor(shapes_, name.c_str());
}

std::string GgufFile::unread() const {
  const LibLlama& lib = *libLlama();
  for (int64_t i = 0; i < lib.gguf_get_n_tensors(file_); i++) {
    const std::string name = lib.gguf_get_tensor_name(file_, i);
    if (asked_.count(name) == 0) return name;
  }
  return "";
}

void GgufFile::read(const std::string& name, std::vector<char>& into) const {
  const LibLlama& lib = *libLlama();
  const int64_t at = lib.gguf_find_tensor(file_, name.c_str());
  if (at < 0) throw std::runtime_error(path_ + " has no tensor " + name);
  const size_t size = lib.gguf_get_tensor_size(file_, at);
  into.resize(into.size() + size);
  std::ifstream file(std::filesystem::u8path(path_), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(lib.gguf_get_data_offset(file_) + lib.gguf_get_tensor_offset(file_, at)));
  file.read(into.data() + into.size() - size, static_cast<std::streamsize>(size));
  if (!file) throw std::runtime_error(path_ + " ends before its tensor " + name + " does");
}

std::vector<float> GgufFile::floats(const std::string& name) const {
  const LibLlama& lib = *libLlama();
  std::vector<char> data;
  read(name, data);
  const ggml_type type = find(name)->type;
  const auto count = static_cast<int64_t>(data.size()) / (type == GGML_TYPE_F32 ? 4 : 2);
  std::vector<float> numbers(static_cast<size_t>(count));
  if (type == GGML_TYPE_F32) {
    std::memcpy(numbers.data(), data.data(), data.size());
  } else if (type == GGML_TYPE_F16) {
    lib.ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(data.data()), numbers.data(), count);
  } else if (type == GGML_TYPE_BF16) {
    lib.ggml_bf16_to_fp32_row(reinterpret_cast<const ggml_bf16_t*>(data.data()), numbers.data(), count);
  } else {
    throw std::runtime_error(name + " in " + path_ + " has the type " + lib.ggml_type_name(type) +
                             "; it must have 16 or 32 bits a number");
  }
  return numbers;
}

}  // namespace hone
