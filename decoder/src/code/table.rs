//! The machine code of an image as decoding needs it: checked, and looked up by address.

use std::collections::HashMap;
use std::sync::OnceLock;

use pcce_abi::functions::{OPEN_THUNK, STUB};
use pcce_abi::trace::RECORDING_BODY;
use pcce_dictionary::code::{Code, FunctionCode, Place, Role, State};

use crate::names;
use crate::source_path::direct;

/// Bound on the calls that are inlined at one instruction: each point there shows them all.
const MAX_INLINED: u16 = 1 << 10;

/// A name, with its demangled form once it was asked for.
#[derive(Debug)]
struct Name {
    linkage: Box<str>,
    demangled: OnceLock<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct CodeTable {
    names: Vec<Name>,
    files: Vec<String>,
    places: Vec<Place>,
    functions: Vec<FunctionCode>,
    /// Names of instrumented functions, and whether no function of the name leaves its activation to another
    /// function.
    instrumented: HashMap<u32, bool>,
    /// True if an instrumented function may leave its activation to another one.
    pub(crate) may_leave: bool,
    /// True if all frames are where a hybrid encoding expects them. Otherwise stack offsets mean nothing.
    pub(crate) frames_hold: bool,
    /// Indices of instrumented functions, by module and function of the dictionary; true: of second bodies.
    rows: HashMap<(u32, u32, bool), usize>,
    /// Thunks of functions, by their addresses.
    thunks: HashMap<u64, Thunk>,
}

/// A local function that pushes, and calls the function that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thunk {
    /// Module and function of the dictionary of the function that it is for.
    pub(crate) of: (u32, u32),
    /// True if it is a [`STUB`], whose frame has an id of the function; false if it is an [`OPEN_THUNK`], whose frame
    /// has the id of the open call.
    pub(crate) is_stub: bool,
}

/// The thunks by their addresses, where one function alone has the name.
fn thunks(code: &Code) -> HashMap<u64, Thunk> {
    let name = |function: &FunctionCode| code.names[function.name as usize].as_str();
    let of = |function: &FunctionCode| {
        let name = name(function);
        let stub = name.strip_suffix(STUB).map(|of| (of.to_owned(), true));
        let found = stub.or_else(|| Some((name.strip_suffix(OPEN_THUNK)?.to_owned(), false)));
        let found =
            found.map(|(of, is_stub)| (of.strip_suffix(RECORDING_BODY).unwrap_or(&of).to_owned(), is_stub));
        found.filter(|_| !matches!(function.role, Role::Instrumented(..)))
    };
    let thunks: Vec<(u64, (String, bool))> =
        code.functions.iter().filter_map(|f| Some((f.start, of(f)?))).collect();
    let mut named: HashMap<&str, Vec<(u32, u32)>> = HashMap::new();
    for (_, (of, _)) in &thunks {
        named.insert(of, Vec::new());
    }
    for function in code.functions.iter().filter(|function| !function.part && !function.second) {
        if let (Role::Instrumented(module, row), Some(rows)) = (function.role, named.get_mut(name(function)))
        {
            rows.push((module, row));
        }
    }
    let only = |of: &str| <[_; 1]>::try_from(&*named[of]).ok();
    let thunk = |of: &str, is_stub| Some(Thunk { of: only(of)?[0], is_stub });
    thunks.iter().filter_map(|(start, (of, is_stub))| Some((*start, thunk(of, *is_stub)?))).collect()
}

impl CodeTable {
    /// Checks the numbers of a table that was read from a file.
    pub(crate) fn new(mut code: Code, dictionary: &[(u32, u32)]) -> Result<Self, &'static str> {
        let name = |name: u32| (name as usize) < code.names.len();
        let places = |place: &Place| name(place.name) && (place.file as usize) < code.files.len();
        if !code.places.iter().all(places) {
            return Err("a place names what is not there");
        }
        if !code.places.iter().enumerate().all(|(i, place)| place.caller as usize <= i) {
            return Err("a place is called from one behind it");
        }
        let mut depths = vec![0_u16];
        for place in &code.places {
            depths.push(depths[place.caller as usize] + 1);
            if depths.last() > Some(&MAX_INLINED) {
                return Err("calls are inlined within one another more deeply than compilers do it");
            }
        }
        let mut end = 0;
        for function in &code.functions {
            let known = match function.role {
                Role::Instrumented(module, function) => {
                    dictionary.get(module as usize).is_some_and(|&(_, count)| function < count)
                }
                Role::Plain | Role::Opaque => true,
            };
            let lines = function.lines.iter().all(|l| l.1 as usize <= code.places.len());
            if !known
                || !name(function.name)
                || !lines
                || !function.calls.iter().all(|c| c.1 == 0 || name(c.1 - 1))
            {
                return Err("a function names what is not there");
            }
            if function.start < end {
                return Err("its functions overlap");
            }
            end = function.start.checked_add(function.len).ok_or("a function has no end")?;
            let sorted = function.states.is_sorted_by_key(|s| s.0)
                && function.lines.is_sorted_by_key(|l| l.0)
                && function.calls.is_sorted_by_key(|c| c.0);
            if !sorted {
                return Err("the rows of a function are not in order");
            }
        }
        let mut rows = HashMap::new();
        for (i, function) in code.functions.iter().enumerate() {
            if let Role::Instrumented(module, row) = function.role
                && !function.part
                && rows.insert((module, row, function.second), i).is_some()
            {
                return Err("two functions are the same one of the dictionary");
            }
        }
        // It is not known which of its bodies a function runs.
        for (&(module, row, _), &second) in rows.iter().filter(|(row, _)| row.2) {
            if let Some(&first) = rows.get(&(module, row, false)) {
                code.functions[first].stays &= code.functions[second].stays;
            }
        }
        let thunks = thunks(&code);
        let names =
            code.names.iter().map(|n| Name { linkage: n.as_str().into(), demangled: OnceLock::new() });
        let is_instrumented = |f: &&FunctionCode| matches!(f.role, Role::Instrumented(..));
        let named = code.functions.iter().filter(is_instrumented).map(|f| (f.name, true));
        let mut instrumented: HashMap<u32, bool> = named.collect();
        for function in code.functions.iter().filter(|f| !f.part && !f.stays) {
            instrumented.entry(function.name).and_modify(|stays| *stays = false);
        }
        Ok(Self {
            may_leave: instrumented.values().any(|stays| !stays),
            instrumented,
            frames_hold: false,
            rows,
            thunks,
            names: names.collect(),
            files: code.files.iter().map(|file| direct(file).into_owned()).collect(),
            places: code.places,
            functions: code.functions,
        })
    }

    /// The thunk that this function is; None if it is none, or the function that it is for is unknown.
    pub(crate) fn thunk(&self, function: &FunctionCode) -> Option<Thunk> {
        self.thunks.get(&function.start).copied()
    }

    /// The function with the instruction at an address.
    pub(crate) fn function(&self, address: u64) -> Option<&FunctionCode> {
        let after = self.functions.partition_point(|f| f.start <= address);
        self.functions[..after].last().filter(|f| address - f.start < f.len)
    }

    /// The first body of a function of the dictionary, by the index of its module and its index in the module.
    /// None if it is not in the program, or a linker has replaced it by another function.
    pub(crate) fn of(&self, module: u32, function: u32) -> Option<&FunctionCode> {
        self.rows.get(&(module, function, false)).map(|&row| &self.functions[row])
    }

    /// Returns whether an instrumented function has this name.
    pub(crate) fn is_instrumented(&self, name: u32) -> bool {
        self.instrumented.contains_key(&name)
    }

    /// Returns whether an instrumented function has this name, and no function of the name leaves its activation
    /// to another one.
    pub(crate) fn stays(&self, name: u32) -> bool {
        self.instrumented.get(&name).copied().unwrap_or(false)
    }

    pub(crate) fn linkage(&self, name: u32) -> &str {
        &self.names[name as usize].linkage
    }

    pub(crate) fn name(&self, name: u32) -> &str {
        let name = &self.names[name as usize];
        name.demangled.get_or_init(|| names::demangle(&name.linkage).into())
    }

    pub(crate) fn file(&self, file: u32) -> &str {
        &self.files[file as usize]
    }

    /// The source locations of a place, innermost first.
    pub(crate) fn chain(&self, place: u32) -> impl Iterator<Item = &Place> {
        let at = |number: u32| Some(&self.places[number.checked_sub(1)? as usize]);
        std::iter::successors(at(place), move |place| at(place.caller))
    }
}

/// The place of the instruction that covers an address of the function; 0 if it is not known.
pub(crate) fn place(function: &FunctionCode, address: u64) -> u32 {
    row(&function.lines, address - function.start).copied().unwrap_or(0)
}

/// The state before the instruction that covers an address of the function.
pub(crate) fn state(function: &FunctionCode, address: u64) -> State {
    row(&function.states, address - function.start).copied().unwrap_or(State::Unknown)
}

/// The callee of the call before a return address, if it is known. None if there is no call.
pub(crate) fn callee(function: &FunctionCode, return_address: u64) -> Option<Option<u32>> {
    let offset = u32::try_from(return_address.checked_sub(function.start)?).ok()?;
    let at = function.calls.binary_search_by_key(&offset, |c| c.0).ok()?;
    Some(function.calls[at].1.checked_sub(1))
}

fn row<T>(rows: &[(u32, T)], offset: u64) -> Option<&T> {
    let after = rows.partition_point(|r| u64::from(r.0) <= offset);
    rows[..after].last().map(|r| &r.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start: u64, role: Role, frame_offset: Option<u32>) -> FunctionCode {
        let (states, lines, calls) = (Vec::new(), Vec::new(), Vec::new());
        FunctionCode {
            start,
            len: 16,
            name: 0,
            role,
            part: false,
            second: false,
            states,
            lines,
            calls,
            frame_offset,
            frame_position: None,
            stays: false,
        }
    }

    fn table(functions: Vec<FunctionCode>) -> Result<CodeTable, &'static str> {
        let code = Code { names: vec!["f".to_owned()], functions, ..Code::default() };
        CodeTable::new(code, &[(0, 1), (0, 3)])
    }

    #[test]
    fn inlined_calls_have_a_bounded_depth() {
        let with = |depth: u32| {
            let places = (0..depth).map(|caller| Place { name: 0, file: 0, line: 1, column: 0, caller });
            let (names, files) = (vec!["f".to_owned()], vec![String::new()]);
            CodeTable::new(Code { names, files, places: places.collect(), ..Code::default() }, &[])
        };
        assert!(with(MAX_INLINED.into()).is_ok());
        let error = with(u32::from(MAX_INLINED) + 1).err();
        assert_eq!(error, Some("calls are inlined within one another more deeply than compilers do it"));
    }

    #[test]
    fn functions_of_the_dictionary_are_found() {
        let one = row(16, Role::Plain, Some(8));
        let two = row(32, Role::Instrumented(1, 2), Some(24));
        let three = row(48, Role::Instrumented(1, 0), None);
        let code = table(vec![one, two.clone(), three.clone()]).expect("it is good");
        assert_eq!(code.of(1, 2), Some(&two));
        assert_eq!(code.of(1, 0), Some(&three));
        assert_eq!((code.of(1, 1), code.of(0, 0)), (None, None));
        let twice = table(vec![two, row(48, Role::Instrumented(1, 2), None)]);
        assert!(twice.is_err());
        let part = FunctionCode { part: true, ..row(8, Role::Instrumented(1, 2), None) };
        assert_eq!(
            table(vec![part, row(32, Role::Instrumented(1, 2), None)]).map(|t| t.of(1, 2).is_some()),
            Ok(true)
        );
    }
}
