// cpu_stream: reads the row once. Candidates, which reach the filter threshold, go to a buffer. When the buffer is
// full, it is pruned to the k best so far, which raises the filter threshold for the rest of the row. For rows with a
// small selected share. Included by simd_type-inl.hpp, once per instruction set.

template <class T, Direction direction, class Place>
class StreamFamily {
 public:
  /// True if rows by magnitude need not be copied.
  static bool ComparesMagnitudes(const Problem& problem) {
    return problem.cols > kCopiedBytes / static_cast<std::int64_t>(sizeof(T));
  }

  StreamFamily(const Plan& plan, const Output& output, Scratch& scratch)
      : problem_(plan.problem),
        results_(plan.problem, output, scratch),
        listing_(scratch),
        candidates_(scratch.take<Candidate>(plan.candidate_capacity)),
        places_(scratch.take<Place>(plan.candidate_capacity)),
        chosen_(scratch.take<Place>(kListedAtOnce)),
        magnitudes_(plan.problem.magnitude ? scratch.take<Key>(kListedAtOnce) : nullptr),
        prune_at_(static_cast<std::size_t>(plan.candidate_capacity) - kListedAtOnce) {
    const auto k = static_cast<double>(problem_.k);
    const double share_left = 1 - k / static_cast<double>(problem_.cols);
    // With this margin, about one of 200 similar rows has fewer than k candidates.
    margin_ = 2.5 * std::sqrt(k * share_left) + 2;
    sparse_ = 32 * (k + margin_) < static_cast<double>(problem_.cols);
  }

  void Select(const T* elements, std::int64_t number) {
    results_.Begin(elements, number);
    extent_.Begin();
    passes_ = 0;
    const Key expected = hint_.known ? RowView::FromReal(hint_.value - reach_ * margin_ * hint_.gap) : Key{0};
    SelectRow(elements, expected);
    results_.End(passes_);
    CompareWith(expected);
  }

  /// Select() measures the extent of a row from now on.
  void MeasureExtents() { measures_ = true; }

  /// Of the row that was selected last.
  Extent<core::KeyOf<T>> ExtentOf(const T* elements) { return extent_.Reach(elements, problem_.cols); }

 private:
  using Held = HWY_NAMESPACE::Held<T, direction>;
  using RowView = typename Held::RowView;
  using Candidate = typename Held::Element;
  using Key = core::KeyOf<T>;

  void SelectRow(const T* elements, Key expected) {
    const auto size = static_cast<std::size_t>(problem_.cols);
    const bool trusted = hint_.known && hits_ >= kTrustedHits;
    hint_.known = trusted;
    // To try a tie takes a pass, or two if the row cannot be marked at once: then the sample has to speak for it.
    const bool samples_first = !trusted && size > kListedAtOnce;
    Key filter_threshold = trusted ? expected : samples_first ? SampledThreshold(elements) : Key{0};
    Key key = 0;
    const bool looks_tied =
        magnitudes_ == nullptr && LooksTied<T, direction>(elements, size, key) && filter_threshold <= key;
    if (looks_tied) SetFloor(key);
    if (has_floor_ && (trusted || looks_tied) && filter_threshold <= floor_ && FinishTied(elements, filter_threshold)) {
      return;
    }
    const bool filters = filter_threshold > RowView::lowest_key;
    if (filters) {
      if (FinishFast(elements, filter_threshold)) return;
      if (trusted) reach_ = std::min(1.0, reach_ * 1.25);
    }
    hint_.known = false;
    if (!samples_first) {
      const Key sampled = SampledThreshold(elements);
      if ((!filters || sampled < filter_threshold) && FinishFast(elements, sampled)) return;
    }
    Finish(Row<RowView>(elements, size), 0);
  }

  /// Counts the rows in succession for which the hint was right. A filter threshold from a hint saves the sample; where
  /// every row has a scale of its own, it costs a read of the row.
  void CompareWith(Key expected) {
    if (expected == 0) return;  // there was no hint
    const double below = found_ - RowView::ToReal(expected);
    const bool hit = expected > RowView::lowest_key && below >= 0 && below <= 6 * margin_ * hint_.gap && !pruned_;
    hits_ = hit ? std::min(hits_ + 1, kTrustedHits) : 0;  // a miss costs as much as many samples
  }

  /// A filter threshold that most likely at least k elements reach, from a sample of the row: whole cache lines, since a
  /// line that is not in the cache costs more than to count its elements.
  Key SampledThreshold(const T* elements) {
    using View = typename Held::View;
    constexpr std::size_t kLine = 64 / sizeof(T);
    const auto cols = static_cast<std::size_t>(problem_.cols);
    if (cols < 4 * kLine) return 0;
    const std::size_t lines = std::clamp(cols / 32, std::size_t{256}, std::size_t{2048}) / kLine;
    const std::size_t size = lines * kLine;
    for (std::size_t i = 0; i < lines; ++i) {
      std::memcpy(candidates_ + i * kLine, elements + i * (cols - kLine) / (lines - 1), kLine * sizeof(T));
    }
    if (magnitudes_ != nullptr) {
      auto* const bits = reinterpret_cast<Key*>(candidates_);
      CopyMagnitudes<T>(bits, size, bits);
    }
    Held::Convert(candidates_, size);
    const double rank = static_cast<double>(problem_.k) * static_cast<double>(size) / static_cast<double>(cols);
    const auto wanted = static_cast<std::int64_t>(rank + 2.5 * std::sqrt(rank) + 3);
    if (2 * wanted >= static_cast<std::int64_t>(size)) return 0;
    Hint cold;
    return FindThreshold(Row<View>(candidates_, size), wanted, cold, wanted / 4).key;
  }

  /// Selects the k best if the floor is the kth value. Otherwise returns false and selects nothing; if the kth value is
  /// above the floor, raises the filter threshold above it.
  bool FinishTied(const T* elements, Key& filter_threshold) {
    bool is_above = false;
    pruned_ = false;
    if (TakeIfTied(elements, problem_, floor_, listing_, results_, passes_, is_above)) {
      const double value = RowView::ToReal(floor_);
      hint_.Learn(value, value, 0, false);
      found_ = value;
      return true;
    }
    if (is_above) {
      filter_threshold = static_cast<Key>(floor_ + 1);
    } else {
      has_floor_ = false;
    }
    return false;
  }

  /// Finish() with the fastest view for this filter threshold.
  bool FinishFast(const T* elements, Key filter_threshold) {
    const auto size = static_cast<std::size_t>(problem_.cols);
    if constexpr (Held::converts) {
      using View = HalfView<T, direction>;
      if (filter_threshold > View::lowest_key && (magnitudes_ != nullptr || !View::HidesNaN(elements, size)))
        return Finish(Row<View>(elements, size), filter_threshold);
    }
    return Finish(Row<RowView>(elements, size), filter_threshold);
  }

  /// Selects the k best. Returns false and selects nothing if fewer than k elements reach `filter_threshold`.
  template <class View>
  bool Finish(const Row<View>& row, Key filter_threshold) {
    const bool aimed = hint_.known && filter_threshold > RowView::lowest_key;
    double gap = hint_.gap;
    Threshold kth{};  ///< Result of the latest search among the candidates.
    size_ = 0;
    pruned_ = false;
    ++passes_;
    // Invariant: the buffer holds, in index order, the elements before `begin` that reached the filter threshold when
    // they were read, less those that were pruned because k others are better.
    for (std::size_t begin = 0; begin < row.size(); begin += kListedAtOnce) {
      const std::size_t end = std::min(row.size(), begin + kListedAtOnce);
      if (measures_) extent_.Reach(row.elements(), static_cast<std::int64_t>(end));
      if (magnitudes_ == nullptr) {
        AppendBlock(row, begin, end, begin, filter_threshold);
      } else {
        CopyMagnitudes<T>(reinterpret_cast<const Key*>(row.elements()) + begin, end - begin, magnitudes_);
        const Row<View> block(reinterpret_cast<const T*>(magnitudes_), end - begin);
        AppendBlock(block, 0, end - begin, begin, filter_threshold);
      }
      if (size_ > prune_at_) {
        pruned_ = true;
        if (aimed) LookForFloor();
        Hint cold;
        const bool open = Prune(filter_threshold, cold, kth);
        // The elements of the whole row are closer together than those of its beginning.
        gap = cold.gap * static_cast<double>(end) / static_cast<double>(row.size());
        if (!open) break;
      }
    }
    if (size_ < static_cast<std::size_t>(problem_.k)) return false;
    const double at_filter_threshold = RowView::ToReal(filter_threshold);
    const auto surplus = static_cast<std::int64_t>(size_) - problem_.k;
    Hint first{aimed, at_filter_threshold + (static_cast<double>(surplus) + 0.5) * gap, gap};
    if (surplus == 0) {
      results_.Add(places_, size_, 0);
    } else {
      kth = FindBest(first, kth, [&](const std::uint16_t* positions, std::size_t count, std::size_t base) {
        Gather(places_ + base, positions, count, chosen_);
        results_.Add(chosen_, count, 0);
      });
    }
    if (kth.tied) SetFloor(kth.key);
    const double found = surplus > 0 || kth.tied ? kth.value : at_filter_threshold;
    found_ = found;
    if (aimed) {
      if (pruned_ || static_cast<double>(surplus) > 3 * margin_) reach_ *= 0.75;
      hint_.Learn(found, at_filter_threshold, surplus, false);
    } else {
      hint_ = {true, found, surplus > 0 ? first.gap : gap};
    }
    return true;
  }

  /// Called if there are far more candidates than expected: sets the floor if many of them are equal.
  void LookForFloor() {
    using View = typename Held::View;
    const Row<View> buffer(candidates_, size_);
    const Key key = View::KeyOf(candidates_[size_ / 2]);
    if (key <= View::lowest_key || key >= View::highest_key) return;
    if (8 * (buffer.Count(key) - buffer.Count(static_cast<Key>(key + 1))) >= static_cast<std::int64_t>(size_)) {
      SetFloor(key);
    }
  }

  void SetFloor(Key key) {
    has_floor_ = magnitudes_ == nullptr && key > RowView::lowest_key && key < RowView::highest_key;
    floor_ = key;
  }

  /// Appends what reaches the filter threshold of elements [begin, end) of `row`. The first is at `place`.
  template <class View>
  HWY_INLINE void AppendBlock(const Row<View>& row, std::size_t begin, std::size_t end, std::size_t place,
                              Key filter_threshold) {
    const T* const elements = row.elements() + begin;
    if (filter_threshold <= View::lowest_key) return AppendAll(elements, place, end - begin);
    // A raw view cannot compare with a threshold above infinity: it lets infinities through, and pruning removes them.
    const Key key = std::min(filter_threshold, View::highest_key);
    Append(elements, place,
           sparse_ ? listing_.template Fill<true>(row, key, begin, end)
                   : listing_.template Fill<false>(row, key, begin, end));
  }

  void AppendAll(const T* elements, std::size_t begin, std::size_t count) {
    std::memcpy(candidates_ + size_, elements, count * sizeof(T));
    Held::Convert(candidates_ + size_, count);
    std::iota(places_ + size_, places_ + size_ + count, static_cast<Place>(begin));
    size_ += count;
  }

  void Append(const T* elements, std::size_t begin, std::size_t count) {
    Gather(reinterpret_cast<const Key*>(elements), listing_.positions(), count,
           reinterpret_cast<Key*>(candidates_ + size_));
    AddToAll(listing_.positions(), count, static_cast<Place>(begin), places_ + size_);
    Held::Convert(candidates_ + size_, count);
    size_ += count;
  }

  /// The threshold of the k best candidates.
  struct Threshold {
    Key key;
    bool ties_lost;
    bool tied;  ///< Elements equal to it are a large part of the elements read at a time.
    double value;
  };

  /// Finds the k best of the buffer, in order, and calls each(positions relative to base, count, base). `before` is the
  /// threshold that the buffer was pruned to before.
  template <class Each>
  HWY_INLINE Threshold FindBest(Hint& first, const Threshold& before, Each&& each) {
    Threshold kth{};
    WithThreshold<T, direction>(candidates_, size_, problem_.k, first, [&](const auto& row, const auto& threshold) {
      kth = {threshold.key, threshold.count > problem_.k,
             (before.tied && before.key == threshold.key) ||
                 IsTied(threshold, problem_.k, std::min(static_cast<std::size_t>(problem_.cols), kListedAtOnce)),
             RowView::ToReal(threshold.key)};
      passes_ += threshold.passes;
      ListSelected(row, threshold, problem_.k, listing_, each);
    });
    return kth;
  }

  /// Prunes the buffer to the k best and raises the filter threshold. False if no later element can reach it.
  bool Prune(Key& filter_threshold, Hint& cold, Threshold& kth) {
    std::size_t kept = 0;
    kth = FindBest(cold, kth, [&](const std::uint16_t* positions, std::size_t count, std::size_t base) {
      // Elements only move towards the front.
      for (std::size_t i = 0; i < count; ++i) places_[kept + i] = places_[base + positions[i]];
      for (std::size_t i = 0; i < count; ++i) candidates_[kept + i] = candidates_[base + positions[i]];
      kept += count;
    });
    size_ = kept;
    if (!kth.ties_lost) {
      filter_threshold = kth.key;
    } else if (kth.key == core::max_key<T>) {
      return false;
    } else {
      filter_threshold = kth.key + 1;  // later equal elements lose the tie
    }
    return true;
  }

  const Problem& problem_;
  Results<T, direction> results_;
  Listing listing_;
  Candidate* candidates_;
  Place* places_;    ///< Positions of the candidates in the row.
  Place* chosen_;    ///< Positions of the selected ones of a listing.
  Key* magnitudes_;  ///< Of the elements that are listed at a time; null if elements are compared as they are.
  std::size_t size_ = 0;
  std::size_t prune_at_;  ///< Prune above this size: one more listing must fit.
  double margin_;         ///< Number of candidates to aim for beyond k.
  /// How far below the kth value to look for them, against what the distance of elements there says. Less than 1 where
  /// elements lie closer together further down, as in the tail of a softmax.
  double reach_ = 1;
  bool pruned_ = false;  ///< The candidates of the latest row were too many.
  bool sparse_;          ///< Most vectors hold no candidate.
  std::int32_t passes_ = 0;
  Hint hint_;
  static constexpr std::int32_t kTrustedHits = 6;
  std::int32_t hits_ = kTrustedHits;
  double found_ = 0;  ///< The kth value of the latest row.
  /// A value that a large part of the row has, at the kth value or closely below: for example the zeros after ReLU. If
  /// the filter threshold were not above it, all of them would be candidates.
  Key floor_ = 0;
  bool has_floor_ = false;
  GrowingExtent<T, direction> extent_;
  bool measures_ = false;
};
