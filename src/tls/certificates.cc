#include "tls/certificates.h"

#include <fmt/chrono.h>

#include "base/events.h"
#include "base/log.h"

namespace pvrdma::tls {
namespace {

std::string date_text(std::uint64_t at_s) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(at_s)));
}

}  // namespace

std::vector<CertificateState> Certificates::states() const {
  std::vector<CertificateState> states;
  for (const Use& use : used_)
    states.push_back({use.name, use.context->certificate_file(), use.context->not_after_s()});
  return states;
}

void Certificates::reload() const {
  if (used_.empty()) log::info("reload: this daemon uses no certificates, so there is nothing to do");
  for (const Use& use : used_) {
    if (const auto done = use.context->reload(); !done) {
      log::error("reload: [{}] keeps its certificate, because the new files cannot be used: {}", use.name,
                 done.error().message);
    } else {
      log::info("reload: [{}] uses the certificate in {} for new connections; it ends on {}", use.name,
                use.context->certificate_file(), date_text(use.context->not_after_s()));
    }
  }
}

void Certificates::warn_of_end(std::uint64_t now_s) const {
  for (const CertificateState& state : states()) {
    if (state.not_after_s > now_s + kWarnBeforeS) continue;
    events::tell(log::Level::kWarn, {events::Type::kCertificate},
                 "[{}] the certificate in {} {} on {}: replace the file, then run systemctl reload pvrdmad",
                 state.use, state.file, state.not_after_s > now_s ? "ends" : "ended",
                 date_text(state.not_after_s));
  }
}

}  // namespace pvrdma::tls
