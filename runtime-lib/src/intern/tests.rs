use super::index::linked;
use super::*;
use std::vec::Vec;

#[test]
fn equal_keys_share_a_number_and_others_do_not() {
    static MAP: Interner<u64> = Interner::new();
    let mut seen = std::collections::HashMap::new();
    for i in 0..200_000u64 {
        let key = [i % 1000, i / 1000 % 7, i % 13];
        let number = MAP.insert(&key, i).unwrap();
        let first = *seen.entry(key).or_insert((number, i));
        assert_eq!(first.0, number);
        assert_eq!(MAP.find(&key), Some(first));
    }
    let mut numbers: Vec<u64> = seen.values().map(|v| v.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), seen.len());
    assert_eq!(MAP.find(&[1000, 0, 0]), None);
}

#[test]
fn keys_with_one_hash_are_distinct() {
    static MAP: Interner<()> = Interner::new();
    let same = |site: u64| [site.wrapping_mul(0x9e37_79b9_7f4a_7c15), site, 7];
    assert_eq!(hash(&same(1)), hash(&same(2)), "or this test tests nothing");
    let numbers: Vec<u64> = (0..1000).map(|i| MAP.insert(&same(i), ()).unwrap()).collect();
    assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());
    assert!((0..1000).all(|i| MAP.find(&same(i)) == Some((numbers[i as usize], ()))));
}

/// The average number of slots that are looked at to find one of the keys.
fn probes(keys: &[Key]) -> f64 {
    let map: Interner<()> = Interner::new();
    keys.iter().for_each(|key| assert!(map.insert(key, ()).is_some()));
    let table = map.index.current();
    let length = |key: &Key| {
        let start = table.start(hash(key));
        let slots = (start..).map(|slot| table.slot(slot).load(Ordering::Relaxed));
        slots.take_while(|&found| linked(found, key, hash(key)).is_none()).count() + 1
    };
    keys.iter().map(length).sum::<usize>() as f64 / keys.len() as f64
}

#[test]
fn keys_as_chains_have_them_are_found_soon() {
    // With random hashes, it would be 2.5 in a table that is three quarters full.
    let few = |keys: Vec<Key>| assert!(probes(&keys) < 3.0, "{}", probes(&keys));
    let site = |i: u64| 0x40_0000 + i;
    few((0..98_000).map(|i| [i, site(0), 0]).collect());
    few((0..98_000).map(|i| [1, site(i), 0]).collect());
    few((0..98_000).map(|i| [1, site(0), i]).collect());
    few((0..98_000).map(|i| [i, site(i), i]).collect());
    few((0..98_000).map(|i| [i / 310, site(i % 310), 5]).collect());
    few((0..98_000).map(|i| [i / 310, site(0), (i % 310) << 40]).collect());
    few((0..98_000).map(|i| [i % 46, site(i / 46 % 46), (i / 2116).wrapping_neg()]).collect());
}

fn all_differ(mut numbers: Vec<u64>) -> bool {
    numbers.sort_unstable();
    numbers.windows(2).all(|two| two[0] != two[1])
}

#[test]
fn threads_agree_on_numbers_while_tables_grow() {
    // Each round has a new map: the first tables are replaced soonest.
    for keys in [10, 1000, 1000, 1000, 20_000, 20_000, 60_000_u64] {
        let map: Interner<u64> = Interner::new();
        let key = |i: u64| [i, i * 3, 1];
        let run = |order: u64| {
            let turned = |i: u64| (i + keys / 4 * order) % keys;
            let nth = |i: u64| if order.is_multiple_of(2) { turned(i) } else { keys - 1 - turned(i) };
            let mut numbers = std::vec![0; keys as usize];
            for i in (0..keys).map(nth) {
                numbers[i as usize] = map.insert(&key(i), i).unwrap();
                assert_eq!(map.find(&key(i)), Some((numbers[i as usize], i)));
            }
            numbers
        };
        let lists: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|order| scope.spawn(move || run(order))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(lists.iter().all(|list| *list == lists[0]));
        assert!(all_differ(lists[0].clone()));
        let values: std::collections::BTreeSet<u64> = map.values().copied().collect();
        assert!(values.into_iter().eq(0..keys));
    }
}

#[test]
fn a_signal_handler_agrees_with_what_it_interrupts() {
    const KEYS: u64 = 300_000;
    static MAP: Interner<()> = Interner::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static INTERRUPTED: AtomicU64 = AtomicU64::new(0);
    const fn key(i: u64) -> Key {
        [i, 5, i]
    }
    static FOUND: [AtomicU64; KEYS as usize] = [const { AtomicU64::new(0) }; KEYS as usize];
    fn insert(i: u64) {
        let number = MAP.insert(&key(i), ()).unwrap();
        let before = FOUND[i as usize].swap(number, Ordering::Relaxed);
        assert!(before == 0 || before == number, "{i}: {before} and {number}");
    }
    extern "C" fn handler(_: libc::c_int) {
        // The keys that the thread is inserting, and will insert.
        let next = NEXT.load(Ordering::Relaxed);
        (next..(next + 500).min(KEYS)).for_each(insert);
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: a handler that allocates nothing, and signals to this thread only, while it runs.
    let thread = unsafe {
        libc::signal(libc::SIGUSR2, handler as extern "C" fn(libc::c_int) as usize);
        libc::pthread_self()
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        });
        for i in 0..KEYS {
            NEXT.store(i, Ordering::Relaxed);
            insert(i);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(INTERRUPTED.load(Ordering::Relaxed) > 0);
    assert!(all_differ(FOUND.iter().map(|n| n.load(Ordering::Relaxed)).collect()));
    (0..KEYS).for_each(insert);
}
