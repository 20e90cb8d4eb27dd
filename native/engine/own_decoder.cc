#include "own_decoder.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "denormals.h"
#include "sampling_graph.h"
#include "sampling_trial.h"

namespace hone {
namespace {

/** Graphs that are kept: on a GPU shapes are few, on a CPU building one costs less than computing it. */
constexpr size_t kMostGraphs = 64;
/** CUDA's matrix products have tiles of so many columns. */
constexpr int kAdapterTile = 32;

ggml_backend_t openDevice(bool useGpu) {
  ggml_backend_t backend = libLlama()->ggml_backend_dev_init(deviceFor(useGpu), nullptr);
  if (!backend) throw std::runtime_error("the device cannot be opened");
  return backend;
}

}  // namespace

OwnDecoder::OwnDecoder(std::shared_ptr<OwnWeightsFile> file, const ModelInfo& info, const LlamaSettings& settings, bool steady)
    : lib_(*libLlama()),
      file_(std::move(file)),
      info_(info),
      settings_(settings),
      steady_(steady),
      threads_(settings.threads),
      slots_(settings.sequences),
      pool_(settings.useGpu ? nullptr : newPool(settings.threads)),
      backend_(openDevice(settings.useGpu)),
      place_(lib_.ggml_backend_dev_buffer_type(deviceFor(settings.useGpu))),
      weights_(file_->acquire()),
      vocabularySize_(weights_->shape.vocabulary) {
  if (settings.exact) throw Unplayable("it has flash attention alone, and exact sums were asked for");
  if (!settings_.useGpu) {
    const auto attach = cpuFunction<decltype(&ggml_backend_cpu_set_threadpool)>("ggml_backend_cpu_set_threadpool");
    if (attach && pool_) attach(backend_.get(), pool_.get());
    const auto onAbort = cpuFunction<decltype(&ggml_backend_cpu_set_abort_callback)>("ggml_backend_set_abort_callback");
    const auto asked = [](void* aborted) { return static_cast<std::atomic<bool>*>(aborted)->load(); };
    if (onAbort) onAbort(backend_.get(), asked, &aborted_);
    setThreads(threads_);
  }
  allocate(slots_);
  if (settings_.drawOnDevice) {
    const char* missing = missingForSampling(deviceFor(settings_.useGpu), vocabularySize_);
    if (missing) whyHost_ = std::string("the device lacks the operation ") + missing;
    draws_ = !missing;
    if (draws_ && !settings_.drawUntried) whyHost_ = trySampling(*this, slots_);
    draws_ = draws_ && whyHost_.empty();
  }
  warmUp();
}

uint64_t OwnDecoder::kvBytesPerSequence() const {
  return 2 * info_.kvNumbersPerToken * static_cast<uint64_t>(roundUp(settings_.contextPerSequence, kCellStep));
}

/** The KV, the inputs of passes, and the compute buffer. If it throws, there is nothing of these. */
void OwnDecoder::allocate(int slots) {
  const OwnShape& shape = weights_->shape;
  OwnMemory memory;
  memory.cells = roundUp(settings_.contextPerSequence, kCellStep);
  memory.slots = slots + (steady_ ? 2 : 1);
  Held<ggml_context> context = newContext(4);
  memory.kv = lib_.ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, shape.kvWidth(), memory.cells, 2 * shape.layers, memory.slots);
  memory.visibility = lib_.ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 2 * memory.cells);
  const int rows = roundUp(std::max(settings_.ubatch, slots), kAdapterTile);
  const size_t inputs = inputBytes(rows, steady_ ? slots * mixedOf(slots) : 0);
  memory.inputs = lib_.ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<int64_t>(inputs));
  const int alone = shape.width + OwnWeights::kRooms * OwnWeights::kJointRank + shape.inner;
  if (weights_->typeOfA != GGML_TYPE_F32) memory.sum = lib_.ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, alone);
  Held<ggml_backend_buffer> buffer(lib_.ggml_backend_alloc_ctx_tensors_from_buft(context.get(), place_));
  if (!buffer) {
    throw OutOfMemory("no room for the KV of " + std::to_string(slots) + " sequences of " +
                      std::to_string(settings_.contextPerSequence) + " tokens (about " +
                      std::to_string(lib_.ggml_nbytes(memory.kv) >> 20) + " MiB)");
  }
  // Cells that a mask hides are multiplied by 0: they must be finite.
  lib_.ggml_backend_buffer_clear(buffer.get(), 0);
  std::vector<float> visibility(2 * static_cast<size_t>(memory.cells), 0);
  std::fill(visibility.begin() + memory.cells, visibility.end(), -INFINITY);
  lib_.ggml_backend_tensor_set(memory.visibility, visibility.data(), 0, visibility.size() * sizeof(float));
  memory_ = memory;
  memoryContext_ = std::move(context);
  memoryBuffer_ = std::move(buffer);
  slots_ = slots;
  lengths_.assign(static_cast<size_t>(memory.slots), 0);
  staged_ = -1;
  kvBytes_ = lib_.ggml_nbytes(memory.kv);
  try {
    if (adapter_.factors) use(adapter_);
    reserve();
  } catch (...) {
    sleep(false);
    throw;
  }
}

/** Makes the compute buffer as large as the largest pass of each kind needs it. */
void OwnDecoder::reserve() {
  const int rows = std::max(settings_.ubatch, slots_);
  const int most = std::min(rows, settings_.outputs - settings_.sequences + slots_);
  // One sequence with all rows, all sequences, as many spans as there may be, and grids. A smaller pass may need more than a larger.
  std::vector<std::pair<std::vector<Span>, int>> passes;
  for (int window = 2 * memory_.cells; window > kCellStep;) {
    window = roundUp(window / 2, kCellStep);
    passes.push_back({{{0, 1, rows, window}}, 0});
    passes.push_back({{{0, slots_, 1, window}}, 0});
    const int spans = std::min(slots_, kMostSpans);
    for (const int longest : {0, spans / 2, spans - 1}) {
      std::vector<Span> mixed;
      for (int slot = 0; slot < spans; slot++) mixed.push_back({slot, 1, slot == longest ? rows - spans + 1 : 1, window});
      passes.push_back({mixed, 0});
    }
    for (int packed = std::min(2 * slots_, rows); steady_ && packed < 2 * rows; packed *= 2) {
      passes.push_back({{{0, slots_, mixedTokens(), window}}, std::min(packed, rows)});
    }
  }
  measure_.reset(lib_.ggml_gallocr_new(place_));
  allocator_.reset(lib_.ggml_gallocr_new(place_));
  for (const auto& [spans, packed] : passes) {
    for (const bool draws : {false, true}) {
      if (draws && !settings_.drawOnDevice) continue;
      PassShape shape{spans, packed, 0, room_ != nullptr, draws};
      shape.outputs = std::min(shape.rows(), draws ? slots_ : most);
      OwnGraph graph(*weights_, memory_, room_.get(), shape);
      for (int i = 0; i < lib_.ggml_graph_n_nodes(graph.graph()); i++) {
        const ggml_tensor* node = lib_.ggml_graph_node(graph.graph(), i);
        if (node->op != GGML_OP_NONE && !lib_.ggml_backend_supports_op(backend_.get(), node)) {
          throw Unplayable(std::string("the device lacks the operation ") + lib_.ggml_op_desc(node));
        }
      }
      if (!lib_.ggml_gallocr_reserve(allocator_.get(), graph.graph())) throw OutOfMemory("no room for the compute buffer of a pass");
    }
  }
  reserved_ = lib_.ggml_gallocr_get_buffer_size(allocator_.get(), 0);
  const std::lock_guard<std::mutex> lock(reportMutex_);
  BufferBytes& bytes = buffers_[lib_.ggml_backend_buft_name(place_)];
  bytes = {};
  bytes.kv = kvBytes_;
  bytes.compute = reserved_ + lib_.ggml_backend_buffer_get_size(memoryBuffer_.get()) - kvBytes_;
  bytes.adapters = room_ ? room_->bytes() : 0;
}

LlamaReport OwnDecoder::report() const {
  const std::lock_guard<std::mutex> lock(reportMutex_);
  LlamaReport report;
  report.flashAttention = 1;
  report.buffers = buffers_;
  return report;
}

// ---- adapters

/** Puts an adapter onto the device. If it throws, the one before is still there. */
void OwnDecoder::use(const Adapter& adapter) {
  if (!adapter.factors) return;  // passes leave the room out
  if (!room_ || room_->rank() < adapter.factors->rank()) {
    const int multiple = settings_.useGpu ? kAdapterTile : 1;
    auto room = std::make_unique<AdapterRoom>(*weights_, adapter.factors->rank(), place_, multiple);
    forget();
    room_.swap(room);
    try {
      if (allocator_) reserve();
    } catch (...) {
      room_.swap(room);
      reserve();
      throw;
    }
  }
  room_->upload(*weights_, *adapter.factors);
}

void OwnDecoder::loadAdapter(const std::string& path) {
  dropAdapter();
  Adapter read{path, nullptr};
  if (!path.empty()) {
    // Without weights it is checked as far as their shapes go, which the file of the model tells.
    if (weights_) read.factors = std::make_unique<OwnAdapter>(path, *weights_);
    else GgufFile checked(path);
  }
  beside_ = std::move(read);
}

void OwnDecoder::swapAdapter() {
  if (memoryBuffer_) use(beside_);
  std::swap(adapter_, beside_);
}

// ---- sleep

void OwnDecoder::sleep(bool weights) {
  lib_.ggml_backend_synchronize(backend_.get());
  forget();
  allocator_.reset();
  measure_.reset();
  memoryBuffer_.reset();
  memoryContext_.reset();
  kvBytes_ = 0;
  if (weights) {
    adapter_.factors.reset();
    room_.reset();
    weights_.reset();
  }
  const std::lock_guard<std::mutex> lock(reportMutex_);
  buffers_.clear();
}

void OwnDecoder::wake(int slots) {
  const bool withoutWeights = !weights_;
  try {
    if (withoutWeights) weights_ = file_->acquire();
    if (!adapter_.path.empty() && !adapter_.factors) adapter_.factors = std::make_unique<OwnAdapter>(adapter_.path, *weights_);
    if (memoryBuffer_) return;
    allocate(slots);
    warmUp();
  } catch (...) {
    sleep(withoutWeights);
    throw;
  }
}

void OwnDecoder::setThreads(int threads) {
  threads_ = threads;
  const auto set = cpuFunction<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
  if (set && !settings_.useGpu) set(backend_.get(), threads);
}

// ---- passes

void OwnDecoder::decode(const Batch& batch) {
  if (aborted_) throw std::runtime_error("the decoder was told to stop");
  const FlushDenormals flushed;
  reusedGraphs_ = 0;
  copiedBytes_ = 0;
  logits_.clear();
  logitRows_.assign(batch.tokens.size(), -1);
  drawn_.assign(batch.draws.size(), {});
  for (int row = 0; row < batch.size();) {
    const Pass pass = takePass(batch, row);
    evaluate(batch, pass);
  }
}

/** Refuses a graph for which the compute buffer would have to grow by more than a quarter: it is none of those planned. */
void OwnDecoder::allocateGraph(OwnGraph& graph) {
  size_t needed = 0;
  lib_.ggml_gallocr_reserve_n_size(measure_.get(), graph.graph(), nullptr, nullptr, &needed);
  if (needed > reserved_ + reserved_ / 4) {
    throw std::runtime_error("a pass of " + std::to_string(graph.rows()) + " rows with the logits of " + std::to_string(graph.outputs()) +
                             " needs a compute buffer of " + std::to_string(needed) + " bytes, and there are " + std::to_string(reserved_));
  }
  // ggml packs some smaller passes worse than the largest (1.12 times at most was seen). Graphs have addresses in the buffer of before.
  if (needed > lib_.ggml_gallocr_get_buffer_size(allocator_.get(), 0)) forget();
  if (!lib_.ggml_gallocr_reserve(allocator_.get(), graph.graph()) || !lib_.ggml_gallocr_alloc_graph(allocator_.get(), graph.graph())) {
    throw OutOfMemory("no room for the compute buffer of a pass");
  }
}

OwnGraph& OwnDecoder::graphOf(const PassShape& shape) {
  std::vector<int> key = shape.numbers();
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) {
    reusedGraphs_++;
    lately_.splice(lately_.begin(), lately_, found->second.used);
    return *found->second.graph;
  }
  auto graph = std::make_unique<OwnGraph>(*weights_, memory_, room_.get(), shape);
  allocateGraph(*graph);
  if (graphs_.size() == kMostGraphs) {
    graphs_.erase(lately_.back());
    lately_.pop_back();
  }
  lately_.push_front(key);
  return *graphs_.emplace(std::move(key), Cached{std::move(graph), lately_.begin()}).first->second.graph;
}

void OwnDecoder::compute(ggml_cgraph* graph) {
  const ggml_status status = lib_.ggml_backend_graph_compute_async(backend_.get(), graph);
  if (status == GGML_STATUS_SUCCESS) return;
  throw std::runtime_error("the device failed to evaluate a pass (code " + std::to_string(status) + ")");
}

void OwnDecoder::evaluate(const Batch& batch, const Pass& pass) {
  const int first = pass.rows.front().position;
  if (pass.staged >= 0 && pass.staged != staged_) copyCells(pass.staged, staging(), 0, first);
  OwnGraph& graph = graphOf(pass.shape);
  for (size_t i = 0; i < pass.rows.size(); i++) {
    const PassRow& row = pass.rows[i];
    graph.tokens()[i] = row.row < 0 ? 0 : batch.tokens[row.row];
    graph.positions()[i] = row.position;
    graph.cells()[i] = memory_.cellOf(row.slot, row.position, weights_->shape.layers);
    if (pass.shape.packed == 0) graph.visible()[i] = memory_.cells - 1 - row.position;
  }
  for (int query = 0, begin = 0; pass.shape.packed > 0 && query < pass.shape.queries(); query++) {
    const int tokens = pass.shape.spans[0].tokens;
    const int end = pass.wanted[query / tokens];
    // Behind a slot's rows its last one is asked for again.
    const int row = std::min(begin + query % tokens, end);
    graph.rowOf()[query] = row;
    graph.queryOf()[row] = query;
    graph.visible()[query] = memory_.cells - 1 - pass.rows[row].position;
    if (query % tokens == tokens - 1) begin = end + 1;
  }
  for (size_t i = 0; i < pass.wanted.size(); i++) {
    graph.wanted()[i] = pass.wanted[i];
    if (!pass.shape.draws) continue;
    const Draw draw = batch.draws.empty() ? Draw{} : batch.draws[pass.rows[pass.wanted[i]].row];
    graph.asked()[i] = uniformInput(draw.uniform);
    graph.asked()[pass.wanted.size() + i] = 1 / draw.temperature;
  }
  graph.upload(backend_.get());
  compute(graph.graph());
  for (const PassRow& row : pass.rows) lengths_[row.slot] = std::max(lengths_[row.slot], row.position + 1);
  if (pass.staged >= 0) {
    const auto real = std::count_if(pass.rows.begin(), pass.rows.end(), [](const PassRow& row) { return row.row >= 0; });
    copyCells(staging(), pass.staged, first, static_cast<int>(real));
    lengths_[pass.staged] = std::max(lengths_[pass.staged], first + static_cast<int>(real));
  }
  staged_ = pass.staged;
  if (pass.reads) return take(batch, pass, graph);
  lib_.ggml_backend_synchronize(backend_.get());
}

/** Copies logits, or what was drawn, to the host. */
void OwnDecoder::take(const Batch& batch, const Pass& pass, OwnGraph& graph) {
  const size_t numbers = pass.wanted.size() * (pass.shape.draws ? kDrawnNumbers : static_cast<size_t>(vocabularySize_));
  const size_t from = logits_.size();
  logits_.resize(from + numbers);
  lib_.ggml_backend_tensor_get_async(backend_.get(), graph.result(), logits_.data() + from, 0, numbers * sizeof(float));
  lib_.ggml_backend_synchronize(backend_.get());
  copiedBytes_ += numbers * sizeof(float);
  for (size_t i = 0; i < pass.wanted.size(); i++) {
    const int row = pass.rows[pass.wanted[i]].row;
    if (batch.draws.empty()) logitRows_[row] = static_cast<int>(from / static_cast<size_t>(vocabularySize_) + i);
    else drawn_[row] = drawnFrom(logits_.data() + from + kDrawnNumbers * i, vocabularySize_);
  }
}

const float* OwnDecoder::logits(int row) const {
  return logits_.data() + static_cast<size_t>(logitRows_[row]) * static_cast<size_t>(vocabularySize_);
}

// ---- KV

void OwnDecoder::copy(int from, int to) {
  const int length = lengths_[from];
  lengths_[to] = length;
  staged_ = -1;
  if (from != to) copyCells(from, to, 0, length);
}

void OwnDecoder::copyCells(int from, int to, int first, int count) {
  if (count == 0) return;
  Held<ggml_context> context(lib_.ggml_init({4 * lib_.ggml_tensor_overhead() + lib_.ggml_graph_overhead_custom(4, false), nullptr, true}));
  if (!context) throw std::bad_alloc();
  ggml_cgraph* graph = lib_.ggml_new_graph_custom(context.get(), 4, false);
  ggml_tensor* kv = memory_.kv;
  const auto cellsOf = [&](int slot) {
    ggml_tensor* cells = lib_.ggml_view_3d(context.get(), kv, kv->ne[0], count, kv->ne[2], kv->nb[1], kv->nb[2],
                                            static_cast<size_t>(slot) * kv->nb[3] + static_cast<size_t>(first) * kv->nb[1]);
    cells->buffer = kv->buffer;
    return cells;
  };
  ggml_tensor* copied = lib_.ggml_cpy(context.get(), cellsOf(from), cellsOf(to));
  copied->buffer = kv->buffer;
  lib_.ggml_build_forward_expand(graph, copied);
  compute(graph);
}

/** A row sees the cells up to its own: what is behind them need not be taken back. */
void OwnDecoder::trim(int slot, int length) {
  if (length < lengths_[slot]) staged_ = -1;
  lengths_[slot] = std::min(lengths_[slot], length);
}

void OwnDecoder::clear() {
  std::fill(lengths_.begin(), lengths_.end(), 0);
  staged_ = -1;
}

}  // namespace hone
