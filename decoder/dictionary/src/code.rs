//! The machine code of a program, as far as contexts at any instruction need it.
//!
//! The pass puts the addresses of the functions into the section [`SECTION`] of each object file: for each
//! module the address of its site array, the number of its functions, and their addresses, each a word of 8
//! bytes, little endian, written by the linker; 0 for a function that is not in the program. A module whose functions
//! have second bodies, which record traces, has another list of the same length with the addresses of these. From the
//! lists, the program's instructions and its debug information, `pcce dict` makes the [`Code`] that the dictionary
//! holds in compressed form ([`to_text`]).

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{DictionaryError, Unpacker};

/// Name of the section with the addresses of functions.
pub const SECTION: &str = ".debug_pcce_code";

/// The code of one linked program or shared library. Addresses are those of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// File names.
    pub files: Vec<String>,
    /// Linkage names.
    pub names: Vec<String>,
    /// Source locations; [`Place::caller`] refers to earlier ones.
    pub places: Vec<Place>,
    /// By ascending address; no two overlap.
    pub functions: Vec<FunctionCode>,
}

/// A source location with the chain of calls that were inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The source function: index into [`Code::names`].
    pub name: u32,
    /// Index into [`Code::files`].
    pub file: u32,
    /// Line, from 1; 0 if it is not known.
    pub line: u32,
    /// Column, from 1; 0 if it is not known.
    pub column: u32,
    /// 0, or 1 + the index of the place of the inlined call that this code replaces.
    pub caller: u32,
}

/// The machine code of a function, or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionCode {
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Linkage name: index into [`Code::names`].
    pub name: u32,
    pub role: Role,
    /// True if this is a part of the function without its entry: compilers split functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub part: bool,
    /// True if it is the second body of the function, which records a trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second: bool,
    /// The state of the id: from each row's offset on, up to the next one's.
    pub states: Vec<(u32, State)>,
    /// Source locations: from each row's offset on, 1 + the index of the place, or 0.
    pub lines: Vec<(u32, u32)>,
    /// Calls, by ascending offset: the offset after the call, and 1 + the linkage name of the callee, or 0 if that is
    /// not known.
    pub calls: Vec<(u32, u32)>,
    /// The distance of the stack pointer below the canonical frame address at the function's calls, if it is
    /// the same at each. (The canonical frame address is the stack pointer as it was before the call of the
    /// function. Jumps to other functions are no calls.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_offset: Option<u32>,
    /// The distance of the frame that the function pushes below the canonical frame address, if it is the
    /// same at each push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_position: Option<u32>,
    /// True if no jump leaves its activation to another function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
}

/// The role of a function in the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Nothing: it is not instrumented.
    Plain,
    /// It is this function of this module: indices into [`Dictionary::modules`](crate::Dictionary) and
    /// [`functions`](crate::Module).
    Instrumented(u32, u32),
    /// It changes the id, and no row of the dictionary is known to be its own.
    Opaque,
}

/// The id before an instruction, in terms of the id that the function found at its entry (or set, where it
/// pushes at its entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Nothing is known.
    Unknown,
    /// The function's id plus this, modulo 2⁶⁴.
    Added(u64),
    /// The function has pushed, and set the id to 0 for a callee.
    Pushed,
}

/// The compressed form: JSON, zlib, base64.
pub fn to_text(code: &Code) -> String {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let json = serde_json::to_vec(code).expect("numbers and strings always serialise");
    encoder.write_all(&json).expect("writing to memory does not fail");
    STANDARD_NO_PAD.encode(encoder.finish().expect("writing to memory does not fail"))
}

/// Reads the compressed form.
///
/// # Errors
/// [`DictionaryError::Syntax`]; never panics, whatever the text.
pub fn from_text(text: &str) -> Result<Code, DictionaryError> {
    let damaged = |what: String| DictionaryError::Syntax(format!("its machine code table: {what}"));
    let bytes = STANDARD_NO_PAD.decode(text).map_err(|e| damaged(e.to_string()))?;
    let json = Unpacker::new(bytes.len()).unpack(&bytes).map_err(damaged)?;
    serde_json::from_slice(&json).map_err(|e| damaged(e.to_string()))
}

/// Reads the content of [`SECTION`]: for each module, the address of its site array and the addresses of its
/// functions.
///
/// # Errors
/// [`DictionaryError::Fragment`] if it was cut.
pub fn parse_section(section: &[u8]) -> Result<Vec<(u64, Vec<u64>)>, DictionaryError> {
    let cut =
        || DictionaryError::Fragment { section: SECTION, offset: section.len(), what: "cut".to_owned() };
    let mut words = section.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let mut modules = Vec::new();
    while let Some(sites) = words.next() {
        let count = words.next().ok_or_else(cut)?;
        if count > words.len() as u64 {
            return Err(cut());
        }
        modules.push((sites, words.by_ref().take(count as usize).collect()));
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_earlier_builds_is_read() {
        let earlier = r#"{"start":16,"len":3,"name":0,"role":"Plain","states":[],"lines":[],"calls":[]}"#;
        let mut function: FunctionCode = serde_json::from_str(earlier).expect("it is good");
        assert_eq!((function.frame_offset, function.frame_position), (None, None));
        assert_eq!(serde_json::to_string(&function).expect("it can be written"), earlier);
        function.frame_offset = Some(24);
        function.frame_position = Some(56);
        let code = Code { functions: vec![function], ..Code::default() };
        assert_eq!(from_text(&to_text(&code)).expect("it is good"), code);
    }
}
