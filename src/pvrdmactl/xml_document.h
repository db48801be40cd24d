// XML that others wrote, as libxml2's tree: parsing, and looking for elements by their local name. A null
// element has no children, text or attributes.
//
// Pure. Thread: any, one at a time (libxml2 keeps its last error in the thread).
#pragma once

#include <fmt/core.h>
#include <libxml/tree.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pvrdma::ctl::xml {

struct Free {
  void operator()(xmlDoc* document) const { xmlFreeDoc(document); }
  void operator()(xmlChar* text) const { xmlFree(text); }
};
using Document = std::unique_ptr<xmlDoc, Free>;

inline const xmlChar* raw(const char* text) {
  return reinterpret_cast<const xmlChar*>(text);
}

template <typename... Parts>
Failure refuse(fmt::format_string<Parts...> format, Parts&&... parts) {
  return fail(ErrorKind::kInvalid, fmt::format(format, std::forward<Parts>(parts)...));
}

// Replaces no entity, and reads no file or network. Errors (kInvalid): it is not XML, or it has a document
// type definition.
Result<Document> parse(const std::string& text);
// In UTF-8, indented, and without an XML declaration.
std::string print(const Document& document);

bool is_named(const xmlNode* node, const char* name);
std::vector<xmlNode*> children(const xmlNode* parent, const char* name);
xmlNode* child(const xmlNode* parent, const char* name);  // the first one; null: there is none
// The first one of that name and namespace; null: there is none.
xmlNode* child_of_namespace(const xmlNode* parent, const char* name, const char* space);
std::string text_of(const xmlNode* node);
std::string attribute(const xmlNode* node, const char* name);
// The MAC of a libvirt domain's <interface>.
std::string mac_of(const xmlNode* interface);

}  // namespace pvrdma::ctl::xml
