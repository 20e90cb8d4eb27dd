#include "own_weights.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "failure.h"

namespace hone {
namespace {

struct Known {
  const char* architecture;
  int ropeMode;
};
constexpr Known kKnown[] = {{"qwen2", GGML_ROPE_TYPE_NEOX}, {"llama", GGML_ROPE_TYPE_NORMAL}, {"qwen3", GGML_ROPE_TYPE_NEOX}};

/** Rows of the product by which llama.cpp asks whether a kind of buffer can hold a matrix. */
constexpr int kAskedRows = 512;

/** What a tensor is used for. */
enum class Role { rows, product, other };

}  // namespace

Held<ggml_context> newContext(size_t tensors) {
  const LibLlama& lib = *libLlama();
  Held<ggml_context> context(lib.ggml_init({tensors * lib.ggml_tensor_overhead(), nullptr, true}));
  if (!context) throw std::bad_alloc();
  return context;
}

ggml_tensor* placed(ggml_context* context, ggml_type type, int64_t width, int64_t height, ggml_tensor* within, size_t offset) {
  const LibLlama& lib = *libLlama();
  ggml_tensor* tensor = lib.ggml_new_tensor_2d(context, type, width, height);
  if (lib.ggml_backend_tensor_alloc(within->buffer, tensor, static_cast<char*>(within->data) + offset) != GGML_STATUS_SUCCESS) {
    throw std::runtime_error("a tensor has no place on the device");
  }
  return tensor;
}

ggml_backend_dev_t deviceFor(bool useGpu) {
  const LibLlama& lib = *libLlama();
  ggml_backend_dev_t device =
      lib.ggml_backend_dev_by_type(useGpu ? GGML_BACKEND_DEVICE_TYPE_GPU : GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!device && useGpu) device = lib.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU);
  if (!device) throw Unplayable("llama.cpp names no device");
  return device;
}

int OwnLinears::outputs() const {
  return std::accumulate(parts.begin(), parts.end(), 0, [](int sum, const Part& part) { return sum + part.outputs; });
}

OwnShape ownShapeOf(const GgufFile& file) {
  OwnShape shape;
  shape.architecture = file.text("general.architecture");
  const Known* known = nullptr;
  for (const Known& one : kKnown) known = shape.architecture == one.architecture ? &one : known;
  if (!known) throw Unplayable("it has no graph for the architecture " + shape.architecture);
  shape.ropeMode = known->ropeMode;
  const std::string prefix = shape.architecture + ".";
  const auto number = [&](const std::string& key) {
    const std::optional<double> found = file.number(prefix + key);
    if (!found || *found <= 0) throw Unplayable("the file has no usable " + prefix + key);
    return *found;
  };
  const auto whole = [&](const std::string& key) { return static_cast<int>(number(key)); };
  shape.layers = whole("block_count");
  shape.width = whole("embedding_length");
  shape.heads = whole("attention.head_count");
  shape.kvHeads = file.hasKey(prefix + "attention.head_count_kv") ? whole("attention.head_count_kv") : shape.heads;
  shape.headSize = file.hasKey(prefix + "attention.key_length") ? whole("attention.key_length") : shape.width / shape.heads;
  shape.inner = whole("feed_forward_length");
  shape.trainedContext = whole("context_length");
  shape.epsilon = static_cast<float>(number("attention.layer_norm_rms_epsilon"));
  shape.ropeBase = file.hasKey(prefix + "rope.freq_base") ? static_cast<float>(number("rope.freq_base")) : 10000;
  const std::string scaling = file.text(prefix + "rope.scaling.type");
  if (!scaling.empty() && scaling != "none") throw Unplayable("it has no rotation with the scaling " + scaling);
  for (const char* key : {"expert_count", "attention.sliding_window", "attention.scale", "logit_scale", "rope.scaling.factor"}) {
    if (file.number(prefix + key).value_or(0) > 0) throw Unplayable("it has no graph for models with " + prefix + key);
  }
  for (const auto& [key, size] : {std::pair("attention.value_length", shape.headSize), std::pair("rope.dimension_count", shape.headSize)}) {
    if (file.hasKey(prefix + key) && whole(key) != size) throw Unplayable("it has no graph for this " + prefix + key);
  }
  if (file.number("split.count").value_or(1) > 1) throw Unplayable("it does not read models in several files");
  const ggml_tensor* embeddings = file.find("token_embd.weight");
  if (!embeddings) throw Unplayable("the file has no token_embd.weight");
  shape.vocabulary = static_cast<int>(embeddings->ne[1]);
  return shape;
}

/** Gathers descriptions of tensors by the kind of buffer, allocates these, and then fills the tensors. */
struct OwnWeights::Loading {
  struct Filling {
    ggml_tensor* tensor;
    /** Of the file, one behind the other. */
    std::vector<std::string> names;
  };

  OwnWeights& weights;
  const GgufFile& file;
  ggml_backend_dev_t device;
  const LibLlama& lib = *libLlama();
  std::map<ggml_backend_buffer_type_t, ggml_context*> byPlace{};
  std::vector<Filling> fillings{};

  size_t mostTensors() const { return 32 * static_cast<size_t>(weights.shape.layers) + 32; }

  ggml_context* in(ggml_backend_buffer_type_t place) {
    ggml_context*& context = byPlace[place];
    if (!context) {
      weights.contexts_.push_back(newContext(mostTensors()));
      context = weights.contexts_.back().get();
    }
    return context;
  }

  /** As select_weight_buft in llama-model-loader.cpp: the first kind of buffer with which the device can use the tensor so. */
  ggml_backend_buffer_type_t placeOf(ggml_type type, int64_t inputs, int64_t outputs, Role use) const {
    ggml_backend_buffer_type_t usual = lib.ggml_backend_dev_buffer_type(device);
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        lib.ggml_backend_reg_get_proc_address(lib.ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    if (use == Role::other || !extra) return usual;
    for (ggml_backend_buffer_type_t* place = extra(device); place && *place; place++) {
      const Held<ggml_context> context = newContext(8);
      ggml_tensor* matrix = lib.ggml_new_tensor_2d(context.get(), type, inputs, outputs);
      ggml_tensor* result =
          use == Role::rows
              ? lib.ggml_get_rows(context.get(), matrix, lib.ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, kAskedRows))
              : lib.ggml_mul_mat(context.get(), matrix,
                                 lib.ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, inputs, kAskedRows));
      const Held<ggml_backend_buffer> empty(lib.ggml_backend_buft_alloc_buffer(*place, 0));
      matrix->buffer = empty.get();
      if (lib.ggml_backend_dev_supports_op(device, result)) return *place;
    }
    return usual;
  }

  const ggml_tensor* described(const std::string& name, int64_t inputs, int64_t outputs) const {
    const ggml_tensor* found = file.find(name);
    if (!found) throw Unplayable("the file has no " + name);
    if (found->ne[0] != inputs || found->ne[1] != outputs || found->ne[2] != 1) {
      throw Unplayable(name + " has another shape than this architecture's");
    }
    return found;
  }

  ggml_tensor* add(ggml_type type, int64_t inputs, int64_t outputs, Role use, std::vector<std::string> names) {
    ggml_tensor* tensor = lib.ggml_new_tensor_2d(in(placeOf(type, inputs, outputs, use)), type, inputs, outputs);
    fillings.push_back({tensor, std::move(names)});
    return tensor;
  }

  ggml_tensor* vector(const std::string& name, int size) {
    if (described(name, size, 1)->type != GGML_TYPE_F32) throw Unplayable(name + " has not 32 bits a number");
    return add(GGML_TYPE_F32, size, 1, Role::other, {name});
  }

  ggml_tensor* matrix(const std::string& name, int inputs, int outputs, Role use) {
    const ggml_type type = described(name, inputs, outputs)->type;
    if (type == GGML_TYPE_F32) throw Unplayable("it plays weights of 16 bits and fewer, and " + name + " has 32");
    return add(type, inputs, outputs, use, {name});
  }

  void linears(OwnLinears& made, const std::string& prefix, int inputs, std::vector<OwnLinears::Part> parts) {
    made.inputs = inputs;
    made.parts = std::move(parts);
    std::vector<std::string> names, biases;
    const ggml_tensor* first = nullptr;
    bool alike = true;
    int biased = 0;
    for (const OwnLinears::Part& part : made.parts) {
      const std::string name = prefix + part.name;
      const ggml_tensor* found = described(name + ".weight", inputs, part.outputs);
      if (!first) first = found;
      alike = alike && found->type == first->type &&
              placeOf(found->type, inputs, part.outputs, Role::product) ==
                  placeOf(first->type, inputs, made.outputs(), Role::product);
      names.push_back(name + ".weight");
      if (!file.find(name + ".bias")) continue;
      if (described(name + ".bias", part.outputs, 1)->type != GGML_TYPE_F32) throw Unplayable(name + ".bias has not 32 bits a number");
      biases.push_back(name + ".bias");
      biased++;
    }
    if (first->type == GGML_TYPE_F32) throw Unplayable("it plays weights of 16 bits and fewer, and " + names.front() + " has 32");
    if (alike) {
      const bool usual = placeOf(first->type, inputs, made.outputs(), Role::product) == lib.ggml_backend_dev_buffer_type(device);
      const int spare = weights.typeOfA == GGML_TYPE_F32 || !usual ? 0 : kRooms * kJointRank * static_cast<int>(names.size());
      made.matrices = {add(first->type, inputs, made.outputs() + spare, Role::product, names)};
    } else {
      for (size_t i = 0; i < names.size(); i++) made.matrices.push_back(matrix(names[i], inputs, made.parts[i].outputs, Role::product));
    }
    if (biased == 0) return;
    if (biased != static_cast<int>(made.parts.size())) throw Unplayable("some of " + prefix + "'s linear layers have a bias, and some none");
    made.bias = add(GGML_TYPE_F32, made.outputs(), 1, Role::other, biases);
  }

  /** Of the layers' matrices, if it is one of 16 bits. */
  ggml_type commonType() const {
    std::set<ggml_type> types;
    for (int i = 0; i < weights.shape.layers; i++) {
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
        const ggml_tensor* found = file.find("blk." + std::to_string(i) + "." + name + ".weight");
        types.insert(found ? found->type : GGML_TYPE_F32);
      }
    }
    const ggml_type type = types.size() == 1 ? *types.begin() : GGML_TYPE_F32;
    return type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ? type : GGML_TYPE_F32;
  }

  void describe() {
    const OwnShape& shape = weights.shape;
    weights.embeddings = matrix("token_embd.weight", shape.width, shape.vocabulary, Role::rows);
    weights.outputNorm = vector("output_norm.weight", shape.width);
    const bool tied = !file.find("output.weight");
    const std::string output = tied ? "token_embd.weight" : "output.weight";
    const ggml_type type = described(output, shape.width, shape.vocabulary)->type;
    const bool same = placeOf(type, shape.width, shape.vocabulary, Role::rows) == placeOf(type, shape.width, shape.vocabulary, Role::product);
    weights.output = tied && same ? weights.embeddings : matrix(output, shape.width, shape.vocabulary, Role::product);
    if (file.find("rope_freqs.weight")) weights.ropeFactors = vector("rope_freqs.weight", shape.headSize / 2);
    weights.layers.resize(static_cast<size_t>(shape.layers));
    for (int i = 0; i < shape.layers; i++) {
      OwnLayer& layer = weights.layers[static_cast<size_t>(i)];
      const std::string prefix = "blk." + std::to_string(i) + ".";
      layer.attentionNorm = vector(prefix + "attn_norm.weight", shape.width);
      layer.innerNorm = vector(prefix + "ffn_norm.weight", shape.width);
      if (shape.architecture == "qwen3") {
        layer.queryNorm = vector(prefix + "attn_q_norm.weight", shape.headSize);
        layer.keyNorm = vector(prefix + "attn_k_norm.weight", shape.headSize);
      }
      const int attended = shape.heads * shape.headSize;
      linears(layer.linears[kAttentionIn], prefix, shape.width,
              {{"attn_q", attended}, {"attn_k", shape.kvWidth()}, {"attn_v", shape.kvWidth()}});
      linears(layer.linears[kAttentionOut], prefix, attended, {{"attn_output", shape.width}});
      linears(layer.linears[kInnerIn], prefix, shape.width, {{"ffn_gate", shape.inner}, {"ffn_up", shape.inner}});
      linears(layer.linears[kInnerOut], prefix, shape.inner, {{"ffn_down", shape.width}});
    }
    if (const std::string unread = file.unread(); !unread.empty()) throw Unplayable("it does not know the tensor " + unread);
  }

  void load() {
    for (const auto& [place, context] : byPlace) {
      Held<ggml_backend_buffer> buffer(lib.ggml_backend_alloc_ctx_tensors_from_buft(context, place));
      if (!buffer) throw OutOfMemory("no room for the weights of " + weights.path);
      lib.ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
      const uint64_t size = lib.ggml_backend_buffer_get_size(buffer.get());
      weights.bytes += size;
      weights.report.buffers[lib.ggml_backend_buft_name(place)].weights += size;
      weights.buffers_.push_back(std::move(buffer));
    }
    for (const Filling& filling : fillings) {
      std::vector<char> data;
      data.reserve(lib.ggml_nbytes(filling.tensor));
      for (const std::string& name : filling.names) file.read(name, data);
      // Whole: a buffer that stores a matrix otherwise takes no parts of it. Rows for A are 0.
      data.resize(lib.ggml_nbytes(filling.tensor));
      lib.ggml_backend_tensor_set(filling.tensor, data.data(), 0, data.size());
    }
  }
};

OwnWeights::OwnWeights(const std::string& file, ggml_backend_dev_t device, bool joint) : path(file), shape(ownShapeOf(GgufFile(file))) {
  const LibLlama& lib = *libLlama();
  const GgufFile opened(file);
  Loading loading{*this, opened, device};
  if (joint) typeOfA = loading.commonType();
  loading.describe();
  loading.load();
  const bool gpu = lib.ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU;
  if (gpu) report.device = lib.ggml_backend_dev_name(device);
  // A alone is rounded.
  if (typeOfA != GGML_TYPE_F32) report.adapters = typeOfA == GGML_TYPE_F16 ? "F16-A" : "BF16-A";
  report.layers = shape.layers + 1;
  report.offloadedLayers = gpu ? report.layers : 0;
}

std::shared_ptr<const int> OwnWeights::takeRoom() const {
  const std::lock_guard<std::mutex> lock(rooms_);
  for (int i = 0; i < kRooms; i++) {
    if (!taken_[i].expired()) continue;
    const auto room = std::make_shared<const int>(i);
    taken_[i] = room;
    return room;
  }
  return nullptr;
}

std::shared_ptr<const OwnWeights> OwnWeightsFile::acquire() {
  const std::lock_guard<std::mutex> lock(loading_);
  if (std::shared_ptr<const OwnWeights> weights = held()) return weights;
  const auto weights = std::make_shared<const OwnWeights>(path_, deviceFor(useGpu_), joint_);
  const std::lock_guard<std::mutex> stored(mutex_);
  loaded_ = weights;
  return weights;
}

std::shared_ptr<const OwnWeights> OwnWeightsFile::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return loaded_.lock();
}

uint64_t OwnWeightsFile::bytes() const {
  const auto weights = held();
  return weights ? weights->bytes : 0;
}

LlamaReport OwnWeightsFile::report() const {
  const auto weights = held();
  return weights ? weights->report : LlamaReport{};
}

}  // namespace hone
