//! What a text has to contain.

/// Asserts that a text contains these words, and shows it if it does not.
#[track_caller]
pub(crate) fn assert_has(text: &str, words: &str) {
    assert!(text.contains(words), "no {words:?} in {text}");
}
