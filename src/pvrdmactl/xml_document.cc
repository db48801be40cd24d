#include "pvrdmactl/xml_document.h"

#include <libxml/parser.h>
#include <string_view>

namespace pvrdma::ctl::xml {
namespace {

std::string taken(xmlChar* text) {
  const std::unique_ptr<xmlChar, Free> owned(text);
  return owned ? reinterpret_cast<const char*>(owned.get()) : std::string();
}

}  // namespace

Result<Document> parse(const std::string& text) {
  xmlResetLastError();
  Document document(xmlReadMemory(
      text.data(), static_cast<int>(text.size()), nullptr, nullptr,
      XML_PARSE_NONET | XML_PARSE_NOBLANKS | XML_PARSE_NOCDATA | XML_PARSE_NOERROR | XML_PARSE_NOWARNING));
  if (document && xmlGetIntSubset(document.get()) == nullptr) return document;
  if (document) return refuse("the domain has a document type definition: remove it");
  const auto* error = xmlGetLastError();
  std::string why = error != nullptr && error->message != nullptr ? error->message : "it is empty";
  while (why.ends_with('\n')) why.pop_back();
  return refuse("line {}: not XML: {}: correct it, or take the output of virsh dumpxml",
                error != nullptr ? error->line : 1, why);
}

std::string print(const Document& document) {
  xmlChar* text = nullptr;
  int size = 0;
  xmlDocDumpFormatMemoryEnc(document.get(), &text, &size, "UTF-8", 1);
  std::string all = taken(text);
  constexpr std::string_view kDeclarationEnd = "?>\n";
  const auto end = all.find(kDeclarationEnd);
  return end == std::string::npos ? all : all.substr(end + kDeclarationEnd.size());  // libvirt writes none
}

bool is_named(const xmlNode* node, const char* name) {
  return node->type == XML_ELEMENT_NODE && xmlStrcmp(node->name, raw(name)) == 0;
}

std::vector<xmlNode*> children(const xmlNode* parent, const char* name) {
  std::vector<xmlNode*> found;
  for (xmlNode* each = parent == nullptr ? nullptr : parent->children; each != nullptr; each = each->next) {
    if (is_named(each, name)) found.push_back(each);
  }
  return found;
}

xmlNode* child(const xmlNode* parent, const char* name) {
  const auto found = children(parent, name);
  return found.empty() ? nullptr : found.front();
}

xmlNode* child_of_namespace(const xmlNode* parent, const char* name, const char* space) {
  for (xmlNode* each : children(parent, name)) {
    if (each->ns != nullptr && xmlStrcmp(each->ns->href, raw(space)) == 0) return each;
  }
  return nullptr;
}

std::string text_of(const xmlNode* node) {
  return node == nullptr ? std::string() : taken(xmlNodeGetContent(node));
}

std::string attribute(const xmlNode* node, const char* name) {
  return node == nullptr ? std::string() : taken(xmlGetNoNsProp(node, raw(name)));
}

std::string mac_of(const xmlNode* interface) {
  return attribute(child(interface, "mac"), "address");
}

}  // namespace pvrdma::ctl::xml
