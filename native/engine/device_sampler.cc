#include "device_sampler.h"

#include <stdexcept>

namespace hone {

// llama.cpp calls these on the thread that decodes or makes the context. They must not throw.
const llama_sampler_i DeviceSampler::kInterface = {
    /* name */ [](const llama_sampler*) { return "hone"; },
    /* accept */ nullptr,
    /* apply */ [](llama_sampler*, llama_token_data_array*) {},
    /* reset */ nullptr,
    /* clone */ nullptr,
    /* free */ [](llama_sampler* sampler) { delete static_cast<Member*>(sampler->ctx); },
    /* backend_init */ [](llama_sampler*, ggml_backend_buffer_type_t, uint32_t) { return true; },
    /* backend_accept */ nullptr,
    /* backend_apply */
    [](llama_sampler* sampler, ggml_context* context, ggml_cgraph*, llama_sampler_data* data) {
      Member& member = memberOf(sampler);
      member.owner->build(member, context, *data);
    },
    /* backend_set_input */
    [](llama_sampler* sampler) {
      const Member& member = memberOf(sampler);
      member.owner->fillInputs(member);
    },
    /* backend_reset */
    [](llama_sampler* sampler) {
      Member& member = memberOf(sampler);
      member.rows.clear();
      member.owner->graph_ = {};
    },
    /* copy_state */ nullptr,
};

DeviceSampler::DeviceSampler(int vocabulary) : vocabulary_(vocabulary) {}

void DeviceSampler::SamplerFree::operator()(llama_sampler* sampler) const { libLlama()->llama_sampler_free(sampler); }

const std::vector<llama_sampler_seq_config>& DeviceSampler::renew(int sequences) {
  const LibLlama& lib = *libLlama();
  chains_.clear();
  configs_.clear();
  graph_ = {};
  checked_.clear();
  complaint_.clear();
  for (int sequence = 0; sequence < sequences; sequence++) {
    auto member = std::make_unique<Member>(Member{this, sequence, {}});
    // llama.cpp takes chains only. A chain owns its samplers.
    chains_.emplace_back(lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params()));
    lib.llama_sampler_chain_add(chains_.back().get(),
                                lib.llama_sampler_init(const_cast<llama_sampler_i*>(&kInterface), member.release()));
    configs_.push_back({sequence, chains_.back().get()});
  }
  return configs_;
}

/** The first complaint is kept; `collect` throws it. */
void DeviceSampler::complain(const char* what) {
  if (complaint_.empty()) complaint_ = what;
}

void DeviceSampler::build(Member& member, ggml_context* context, llama_sampler_data& data) {
  const LibLlama& lib = *libLlama();
  ggml_tensor* const logits = data.logits;
  ggml_tensor* const all = logits->view_src;
  data = {};
  if (!all) {
    // llama.cpp counts the operations of each sampler. There is one sub-graph for all.
    if (member.sequence > 0) return;
    data.probs = buildSampling(context, lib.ggml_reshape_2d(context, logits, logits->ne[0], 1)).drawn;
    return;
  }
  // [vocabulary, rows + 1]: llama.cpp adds a row that nothing reads.
  const int64_t rows = all->ne[1] - 1;
  const size_t stride = static_cast<size_t>(vocabulary_) * sizeof(float);
  const bool expected = all->type == GGML_TYPE_F32 && all->ne[0] == vocabulary_ && all->ne[2] == 1 && all->ne[3] == 1 &&
                        all->nb[0] == sizeof(float) && all->nb[1] == stride && logits->ne[0] == vocabulary_ &&
                        logits->view_offs % stride == 0;
  const auto row = static_cast<int64_t>(logits->view_offs / stride);
  if (expected && rows == 0) {
    // No sampler is active, and nothing of this is computed. With as many operations as in other passes llama.cpp keeps
    // its plan of the memory, and CUDA its graph, which holds for the same addresses only.
    if (graph_.drawn) return;
    graph_ = buildSampling(context, lib.ggml_view_2d(context, all, vocabulary_, 1, all->nb[1], 0));
    data.probs = graph_.drawn;
    return;
  }
  if (!expected || rows < 1 || row >= rows) return complain("llama.cpp hands out the logits of a pass in another shape");
  if (!graph_.drawn) {
    graph_ = buildSampling(context, lib.ggml_view_2d(context, all, vocabulary_, rows, all->nb[1], 0));
  }
  member.rows.push_back(static_cast<int>(row));
  if (row == 0) data.probs = graph_.drawn;
}

void DeviceSampler::expect(const Batch& batch, const std::vector<int32_t*>& sequences) {
  asked_.assign(chains_.size(), {});
  next_.assign(chains_.size(), 0);
  passes_.clear();
  drawn_.assign(static_cast<size_t>(batch.size()), {});
  copiedBytes_ = 0;
  filled_ = 0;
  int rows = 0;
  for (int i = 0; i < batch.size(); i++) {
    if (!batch.wanted[i]) continue;
    const Draw& draw = batch.draws[i];
    asked_[*sequences[i]].push_back({i, uniformInput(draw.uniform), 1 / draw.temperature});
    rows++;
  }
  if (rows > mostRows(vocabulary_)) {
    throw std::runtime_error("no more than " + std::to_string(mostRows(vocabulary_)) + " rows can be drawn at once");
  }
}

/** Called for each sequence with rows in a pass, before it is computed; with the last of them all inputs are there. */
void DeviceSampler::fillInputs(const Member& member) {
  const LibLlama& lib = *libLlama();
  if (!graph_.drawn || !graph_.asked->buffer) {
    return complain("llama.cpp computes a pass without the operations of its samplers");
  }
  const size_t rows = static_cast<size_t>(graph_.rows);
  if (filled_ == 0) {
    inputs_.assign(rows, 0.5f);
    inputs_.resize(2 * rows, 1);
    filling_.assign(rows, -1);
  }
  for (const int row : member.rows) {
    size_t& next = next_[member.sequence];
    const std::vector<Asked>& asked = asked_[member.sequence];
    if (next == asked.size()) return complain("llama.cpp computes rows that were not requested");
    const Asked& one = asked[next++];
    inputs_[row] = one.uniform;
    inputs_[rows + row] = one.scale;
    filling_[row] = one.row;
  }
  filled_ += static_cast<int>(member.rows.size());
  if (filled_ < graph_.rows) return;
  lib.ggml_backend_tensor_set(graph_.asked, inputs_.data(), 0, 2 * rows * sizeof(float));
  passes_.push_back(filling_);
  filled_ = 0;
}

void DeviceSampler::collect(llama_context* context) {
  const LibLlama& lib = *libLlama();
  size_t found = 0, wanted = 0;
  for (const std::vector<Asked>& asked : asked_) wanted += asked.size();
  for (const Pass& pass : passes_) {
    const size_t numbers = kDrawnNumbers * pass.size();
    const float* drawn = lib.llama_get_sampled_probs_ith(context, pass.front());
    if (!drawn) break;
    // Once for a size: llama.cpp waits for the device in each of its calls.
    if (checked_.count(numbers) == 0 && lib.llama_get_sampled_probs_count_ith(context, pass.front()) != numbers) break;
    checked_.insert(numbers);
    for (size_t row = 0; row < pass.size(); row++) drawn_[pass[row]] = drawnFrom(drawn + kDrawnNumbers * row, vocabulary_);
    copiedBytes_ += numbers * sizeof(float);
    found += pass.size();
  }
  if (found < wanted) complain("llama.cpp has not computed what its samplers added");
  if (!complaint_.empty()) throw std::runtime_error("tokens cannot be drawn on the device: " + complaint_);
}

}  // namespace hone
