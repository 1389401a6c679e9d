//! Places at which context numbers are taken, and their ranges.

use pcce_dictionary::Location;
use pcce_encoding::{Encoding, FunctionId};

use crate::numbers::{Numbers, Place};
use crate::testing::*;
use crate::{Call, CallKind, Function, Mode, Program, RuntimeCall};

/// A capture with this number of expected executions.
fn takes(frequency: f64) -> Call {
    Call { frequency, ..call(CallKind::Runtime(RuntimeCall::Context)) }
}

fn location(name: u32, line: u32) -> Location {
    Location { name, file: 0, line, column: 0 }
}

struct Case {
    program: Program,
    encoding: Encoding,
    /// The locations of each function's calls.
    locations: Vec<Vec<Vec<Location>>>,
}

fn case(mode: &Mode<'_>, functions: &[Function], locations: &[&[&[Location]]]) -> Case {
    let program = program(mode, functions);
    let encoding = pcce_encoding::encode(&program.graph, &pcce_encoding::Options::default());
    let of_function = |calls: &&[&[Location]]| calls.iter().map(|all| all.to_vec()).collect();
    Case { program, encoding, locations: locations.iter().map(of_function).collect() }
}

impl Case {
    fn numbers(&self, by_line: bool) -> Numbers {
        let locations = |id: FunctionId, call: usize| &self.locations[id.index()][call][..];
        Numbers::new(&self.program, &self.encoding, None, by_line, locations)
    }

    /// The range of each place, and whether its line is known.
    fn places(&self, by_line: bool) -> Vec<(Option<u64>, bool)> {
        self.numbers(by_line).places().iter().map(|place: &Place| (place.range, place.line)).collect()
    }
}

#[test]
fn each_inline_stack_has_a_range() {
    // `ev` (1), which takes numbers in two lines, was inlined into `a` (2) in lines 10 and 11, and into `b` (3).
    let inlined: [&[Location]; 5] = [
        &[location(1, 5), location(2, 10)],
        &[location(1, 6), location(2, 10)],
        &[location(1, 5), location(2, 11)],
        &[location(1, 5), location(3, 20)],
        &[location(1, 5), location(2, 10)],
    ];
    let functions = [exported("main", &inlined.map(|_| takes(1.0)))];
    let whole = case(&EXECUTABLE, &functions, &[&inlined]);
    // Number 0 means "no context".
    assert_eq!(whole.places(false), [(Some(1), false), (Some(2), true), (Some(3), true)]);
    assert_eq!(whole.places(true).len(), 4);
    assert!(whole.places(true).iter().all(|(range, line)| range.is_some() && *line));
    let numbers = whole.numbers(false);
    let captures: Vec<_> =
        (0..5).map(|call| numbers.of(&whole.encoding, FunctionId::new(0), call).unwrap()).collect();
    assert_eq!(captures.iter().map(|capture| capture.call).collect::<Vec<_>>(), [0, 0, 2, 3, 0]);
    assert_eq!(captures.iter().map(|capture| capture.base).collect::<Vec<_>>(), [1, 1, 2, 3, 1]);
    // The process gives a library's numbers, which contain the line.
    let library = case(&MODULE, &functions, &[&inlined]);
    assert_eq!(library.places(false), [(None, true); 4]);
    let numbers = library.numbers(false);
    let of = |call| numbers.of(&library.encoding, FunctionId::new(0), call).unwrap();
    assert_eq!((of(4).call, of(4).base), (0, pcce_abi::NO_RANGE));
    assert!(numbers.of(&library.encoding, FunctionId::new(0), 5).is_none());
}

#[test]
fn small_ranges_come_first() {
    let functions = [
        exported("main", &[direct(1), direct(1), direct(2)]),
        local("many", &[takes(1.0)]),
        local("one", &[takes(1.0)]),
    ];
    let none: &[Location] = &[];
    let whole = case(&EXECUTABLE, &functions, &[&[none; 3], &[none], &[none]]);
    assert_eq!(whole.places(false), [(Some(2), true), (Some(1), true)]);
    let many = FunctionId::new(1);
    let offset = whole.encoding.offset(many);
    let base = whole.numbers(false).of(&whole.encoding, many, 0).unwrap().base;
    assert_eq!(base, 2_u64.wrapping_sub(offset));
}

#[test]
fn the_rarest_places_have_no_range_where_all_do_not_fit() {
    // Function `i` calls the next one twice: the last one has 2^62 contexts, and takes numbers at three places.
    let depth = 62;
    let mut functions: Vec<Function> =
        (0..depth).map(|i| local(&format!("f{i}"), &[direct(i + 1), direct(i + 1)])).collect();
    functions[0] = exported("f0", &[direct(1), direct(1)]);
    functions.push(local("last", &[takes(0.5), takes(3.0), takes(0.25)]));
    let none: &[Location] = &[];
    let own = [1, 2, 3].map(|line| [location(9, 1), location(0, line)]);
    let own: Vec<&[Location]> = own.iter().map(|all| &all[..]).collect();
    let two = [none, none];
    let mut locations: Vec<&[&[Location]]> = vec![&two; depth as usize];
    locations.push(&own);
    let whole = case(&EXECUTABLE, &functions, &locations);
    assert_eq!(whole.encoding.num_cc(FunctionId::new(depth)), 1 << 62);
    let ranges: Vec<bool> = whole.places(false).iter().map(|(range, _)| range.is_some()).collect();
    assert_eq!(ranges, [false, true, false]);
}
