//! Rust source for the tidy tests: code without comments, contents of literals and tests.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file.
pub(crate) struct Source {
    /// The path from the crate's folder: `src/http2/stream.rs`.
    pub(crate) path: String,
    /// The whole file.
    pub(crate) text: String,
    /// The code: comments and the contents of literals are blank.
    pub(crate) code: String,
}

impl Source {
    /// Returns every Rust file below a folder of the crate, in the order of their paths.
    pub(crate) fn all_in(folder: &str) -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        files.sort();
        let read = |file: &PathBuf| Self::read(root, file);
        files.iter().map(read).collect()
    }

    /// Returns the files under `src/` that are in the binary, without those for tests only.
    pub(crate) fn all_shipped() -> Vec<Self> {
        let files = Self::all_in("src");
        let mut for_tests = Vec::new();
        for file in &files {
            let folder = match file.path.strip_suffix("mod.rs") {
                Some(folder) => folder.to_owned(),
                None => file.path.replace(".rs", "/"),
            };
            for_tests.extend(file.test_modules().map(|name| format!("{folder}{name}")));
        }
        let is_for_tests = |file: &Self| {
            let below = |module: &String| file.path.strip_prefix(module);
            let mut rests = for_tests.iter().filter_map(below);
            rests.any(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        let ships = |file: &Self| !is_for_tests(file);
        files.into_iter().filter(ships).collect()
    }

    /// Returns a file of the crate, whose folder is `root`.
    pub(crate) fn read(root: &Path, file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let path = file.strip_prefix(root).unwrap().to_str().unwrap();
        Self {
            path: path.to_owned(),
            code: blank(&text),
            text,
        }
    }

    /// Returns the folder or file directly below `src/`: `http2`, `config`, `main`.
    pub(crate) fn layer(&self) -> &str {
        let below = self.path.trim_start_matches("src/");
        let end = below.find(['/', '.']).unwrap_or(below.len());
        &below[..end]
    }

    /// Returns the number of modules between this one and the crate's root: 1 for `src/config.rs`.
    pub(crate) fn depth(&self) -> usize {
        let below = self.path.trim_start_matches("src/");
        below.matches('/').count() + usize::from(!below.ends_with("mod.rs"))
    }

    /// Returns the code that ships, without what is compiled for tests only.
    pub(crate) fn shipped(&self) -> String {
        without_tests(&self.code)
    }

    /// Returns the names of the modules that this one declares for tests only, each in its own
    /// file.
    pub(crate) fn test_modules(&self) -> impl Iterator<Item = &str> {
        self.code.split(TEST_ONLY).skip(1).filter_map(|item| {
            let item = item.trim_start().trim_start_matches("pub(crate) ");
            let name = item.strip_prefix("mod ")?;
            name.split_once(';').map(|(name, _)| name.trim())
        })
    }

    /// Returns the number of lines with code that ships.
    pub(crate) fn lines_of_code(&self) -> usize {
        let is_code = |line: &&str| !line.trim().is_empty();
        self.shipped().lines().filter(is_code).count()
    }
}

/// Adds the Rust files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the code with comments and the contents of literals as spaces, without moving lines.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kept, end) = token(rest).unwrap_or_else(|| (first.len_utf8(), first.len_utf8()));
        code.push_str(&rest[..kept]);
        code.extend(
            rest[kept..end]
                .chars()
                .map(|c| if c == '\n' { c } else { ' ' }),
        );
        rest = &rest[end..];
    }
    code
}

/// Returns the string literals of a text, with their positions.
pub(crate) fn literals(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let tokens = std::iter::from_fn(move || {
        let (start, rest) = (at, &text[at..]);
        at += token(rest).map_or(rest.chars().next()?.len_utf8(), |(_, end)| end);
        Some((start, &text[start..at]))
    });
    tokens.filter_map(|(at, token)| {
        let inner = token.strip_prefix('"')?.strip_suffix('"')?;
        Some((at, inner))
    })
}

/// Returns how much of the comment or literal at the start of `text` to keep, and where it ends.
fn token(text: &str) -> Option<(usize, usize)> {
    let to = |end: Option<usize>, width: usize| end.map_or(text.len(), |at| at + width);
    if text.starts_with("//") {
        Some((0, to(text.find('\n'), 0)))
    } else if text.starts_with("/*") {
        Some((0, to(text.find("*/"), 2)))
    } else if text.starts_with("r\"") || text.starts_with("r#") {
        let hashes = text[1..].bytes().take_while(|&byte| byte == b'#').count();
        let open = hashes + 2;
        let is_text = text[open - 1..].starts_with('"');
        let close = format!("\"{}", "#".repeat(hashes));
        is_text.then(|| (open, to(text[open..].find(&close), open + close.len())))
    } else if text.starts_with('"') {
        Some((1, quoted(text, '"')))
    } else if text.starts_with("'\\") || text.chars().nth(2) == Some('\'') && text.starts_with('\'')
    {
        Some((1, quoted(text, '\'')))
    } else {
        None
    }
}

/// Returns the end of the literal at the start of `text`.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Returns the code without the items that are compiled for tests only; their lines stay, empty.
fn without_tests(code: &str) -> String {
    let mut shipped = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(TEST_ONLY) {
        shipped.push_str(&rest[..start]);
        let end = start + item_end(&rest[start..]);
        shipped.extend(rest[start..end].chars().filter(|&c| c == '\n'));
        rest = &rest[end..];
    }
    shipped.push_str(rest);
    shipped
}

/// Returns the end of the item at the start of `code`: at its `;`, or where its first block closes.
fn item_end(code: &str) -> usize {
    let mut open = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 1 => return at + 1,
            '}' => open -= 1,
            ';' if open == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The attribute before an item that is compiled for tests only.
const TEST_ONLY: &str = "#[cfg(test)]";

#[test]
fn comments_and_literals_are_not_code() {
    let text = "let a = \"x\\\" // y\"; // z\nlet b = '\"'; /* c */ r#\"\"d\"#; &'e";
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    for hidden in ["x", "y", "z", "c", "d"] {
        assert!(!code.contains(hidden), "{hidden} in {code}");
    }
    for shown in ["let a", "let b", "&'e"] {
        assert!(code.contains(shown), "no {shown} in {code}");
    }
}

#[test]
fn what_is_for_tests_only_does_not_ship() {
    let code =
        "fn a() {}\n#[cfg(test)]\nmod b;\nfn c() {}\n#[cfg(test)]\nmod d { fn e() {} }\nfn f() {}";
    assert_eq!(
        without_tests(code),
        "fn a() {}\n\n\nfn c() {}\n\n\nfn f() {}"
    );
}
