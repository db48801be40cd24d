// Words: the texts for an enumeration's values. Each such enumeration has one table. Texts are written and
// read with it, choices are listed from it, and it describes the API. Thread: values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace pvrdma {

template <typename Enum>
struct Word {
  std::string_view text;
  Enum value;
};
template <typename Enum>
Word(const char*, Enum) -> Word<Enum>;

// Specialised beside each enumeration that has texts, in the order in which its words are listed.
template <typename Enum>
inline constexpr std::nullptr_t kWords = nullptr;

template <typename Enum>
concept Worded = !std::is_null_pointer_v<std::remove_cvref_t<decltype(kWords<Enum>)>>;

// `value` is in the table.
template <Worded Enum>
constexpr std::string_view to_text(Enum value) {
  for (const auto& word : kWords<Enum>) {
    if (word.value == value) return word.text;
  }
  return {};
}

template <Worded Enum>
constexpr std::optional<Enum> from_text(std::string_view text) {
  for (const auto& word : kWords<Enum>) {
    if (word.text == text) return word.value;
  }
  return std::nullopt;
}

template <Worded Enum>
constexpr auto texts_of() {
  std::array<std::string_view, kWords<Enum>.size()> texts;
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = kWords<Enum>[i].text;
  return texts;
}

}  // namespace pvrdma
