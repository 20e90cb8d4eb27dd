// The JavaScript object that represents one use of an engine.
#pragma once

#include <napi.h>

#include <memory>

#include "port.h"

namespace hone {

Napi::Object engineObject(Napi::Env env, const std::shared_ptr<Use>& use);

}  // namespace hone
