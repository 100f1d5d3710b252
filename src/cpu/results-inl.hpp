// Takes the selected positions of a row in index order and writes them in the order and form of the problem. Included by
// simd_type-inl.hpp, once for each instruction set.

/// A selected element in a form whose ascending order is the order of the results: best first, ties by index.
template <class Key>
struct Ranked {
  Key inverted_key;
  std::int64_t place;

  friend bool operator<(const Ranked& a, const Ranked& b) {
    return a.inverted_key != b.inverted_key ? a.inverted_key < b.inverted_key : a.place < b.place;
  }
};

template <class T, Direction direction>
class Results {
 public:
  Results(const Problem& problem, const Output& output, Scratch& scratch) : problem_(problem), output_(output) {
    if (!sorts()) return;
    if (packs()) {
      packed_ = scratch.take<std::uint64_t>(problem.k);
    } else {
      ranked_ = scratch.take<Ranked<Key>>(problem.k);
    }
    places_ = scratch.take<std::int64_t>(problem.k);
  }

  void Begin(const T* elements, std::int64_t number) {
    elements_ = elements;
    number_ = number;
    written_ = 0;
    const std::int64_t row_start = number * problem_.cols;
    if (problem_.form == Form::dense) std::fill_n(static_cast<Bits*>(output_.dense) + row_start, problem_.cols, Bits{});
    if (problem_.form == Form::mask) std::fill_n(output_.mask + row_start, problem_.cols, std::uint8_t{});
  }

  /// Adds `base` + each of `positions`.
  template <class Position>
  void Add(const Position* positions, std::size_t count, std::size_t base) {
    if (!sorts()) {
      Write(positions, count, base);
    } else if (packs()) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = base + static_cast<std::size_t>(positions[i]);
        packed_[written_ + static_cast<std::int64_t>(i)] =
            (static_cast<std::uint64_t>(InvertedKey(place)) << 32) | place;
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = base + static_cast<std::size_t>(positions[i]);
        ranked_[written_ + static_cast<std::int64_t>(i)] = {InvertedKey(place), static_cast<std::int64_t>(place)};
      }
    }
    written_ += static_cast<std::int64_t>(count);
  }

  void End(std::int32_t passes) {
    if (sorts()) WriteSorted();
    if (problem_.passes) output_.passes[number_] = passes;
  }

 private:
  using Key = core::KeyOf<T>;
  using Bits = core::KeyOf<T>;  ///< Values are moved as bits, so that NaN payloads and -0 survive.

  [[nodiscard]] bool sorts() const { return problem_.order == Order::by_value; }
  /// Whether key and place fit into 64 bits, which sort faster than pairs.
  [[nodiscard]] bool packs() const { return sizeof(Key) <= 4 && problem_.cols <= std::int64_t{1} << 32; }

  Key InvertedKey(std::size_t place) const {
    return static_cast<Key>(~core::directed_key<T, direction>(elements_[place]));
  }

  template <class Position>
  HWY_INLINE void Write(const Position* positions, std::size_t count, std::size_t base) {
    const Bits* elements = reinterpret_cast<const Bits*>(elements_) + base;
    const std::int64_t start = number_ * problem_.k + written_;
    if (core::writes_values(problem_)) Gather(elements, positions, count, static_cast<Bits*>(output_.values) + start);
    if (core::writes_indices(problem_)) {
      switch (problem_.index_type) {
        case IndexType::i32: WriteIndices<std::int32_t>(positions, count, base, start); break;
        case IndexType::i64: WriteIndices<std::int64_t>(positions, count, base, start); break;
        case IndexType::u8: WriteIndices<std::uint8_t>(positions, count, base, start); break;
        case IndexType::u16: WriteIndices<std::uint16_t>(positions, count, base, start); break;
      }
    }
    const std::int64_t row_start = number_ * problem_.cols + static_cast<std::int64_t>(base);
    if (problem_.form == Form::dense) {
      Bits* dense = static_cast<Bits*>(output_.dense) + row_start;
      for (std::size_t i = 0; i < count; ++i) dense[positions[i]] = elements[positions[i]];
    }
    if (problem_.form == Form::mask) {
      std::uint8_t* mask = output_.mask + row_start;
      for (std::size_t i = 0; i < count; ++i) mask[positions[i]] = 1;
    }
  }

  template <class Index, class Position>
  HWY_INLINE void WriteIndices(const Position* positions, std::size_t count, std::size_t base, std::int64_t start) {
    AddToAll(positions, count, static_cast<Index>(base), static_cast<Index*>(output_.indices) + start);
  }

  void WriteSorted() {
    const auto k = static_cast<std::size_t>(problem_.k);
    if (packs()) {
      std::sort(packed_, packed_ + k);  // in place: a run allocates nothing
      for (std::size_t i = 0; i < k; ++i) places_[i] = static_cast<std::int64_t>(packed_[i] & 0xffffffffu);
    } else {
      std::sort(ranked_, ranked_ + k);
      for (std::size_t i = 0; i < k; ++i) places_[i] = ranked_[i].place;
    }
    written_ = 0;
    Write(places_, k, 0);
  }

  const Problem& problem_;
  const Output& output_;
  const T* elements_ = nullptr;
  std::int64_t number_ = 0;
  std::int64_t written_ = 0;
  std::uint64_t* packed_ = nullptr;
  Ranked<Key>* ranked_ = nullptr;
  std::int64_t* places_ = nullptr;
};
