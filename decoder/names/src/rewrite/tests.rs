use crate::demangle;

/// The output of `c++filt` for these names.
#[test]
fn names_of_modules() {
    for (linkage, expected) in [
        ("_ZNK6shapesW6shapes3Box4areaEv", "shapes::Box@shapes::area() const"),
        ("_ZN6shapesW6shapes4areaEii", "shapes::area@shapes(int, int)"),
        ("_ZW3foo3barv", "bar@foo()"),
        ("_ZW3foo3barRKS_3Box", "bar@foo(Box@foo const&)"),
        ("_ZNW3foo3Box3addERKS0_", "Box@foo::add(Box@foo const&)"),
        ("_ZNW3foo3Box3addERKS_3BazS1_", "Box@foo::add(Baz@foo const&, Baz@foo)"),
        (
            "_ZN6shapesW6shapes5scaleERKNS_S0_3BoxEd",
            "shapes::scale@shapes(shapes::Box@shapes const&, double)",
        ),
        (
            "_ZNK6shapesW6shapes3Box6scaledIdEET_S3_",
            "double shapes::Box@shapes::scaled<double>(double) const",
        ),
        ("_ZW3fooW3bar3bazv", "baz@foo.bar()"),
        ("_ZW3fooWP4part3bazv", "baz@foo:part()"),
        ("_ZGIW3foo", "initializer for module foo"),
        ("_ZGIW3fooW3barWP4part", "initializer for module foo.bar:part"),
        ("_ZW3foo3barIiEvT_", "void bar@foo<int>(int)"),
        ("_ZW3foo3bar3Baz", "bar@foo(Baz)"),
        ("_Z3useW3foo3BarS0_S_3Baz", "use(Bar@foo, Bar@foo, Baz@foo)"),
        ("_Z3useRW3foo3BarIiERS_3BazIS1_E", "use(Bar@foo<int>&, Baz@foo<Bar@foo<int> >&)"),
        ("_ZN3appW3foo1fEW3bar1BNS1_1CE", "app::f@foo(B@bar, C@bar)"),
        ("_ZNW3foo1AplERKS0_", "A@foo::operator+(A@foo const&)"),
        ("_ZW3fooplRKS_1AS2_", "operator+@foo(A@foo const&, A@foo const&)"),
        (
            "_ZNSt6vectorIW3foo3BoxSaIS1_EE9push_backERKS1_",
            "std::vector<Box@foo, std::allocator<Box@foo> >::push_back(Box@foo const&)",
        ),
        ("_ZZNW3foo3Box3runEvE1x", "Box@foo::run()::x"),
        ("_ZZW3foo3runvENKUlvE_clEv", "run@foo()::{lambda()#1}::operator()() const"),
        ("_ZNW3foo3BoxC1Ev", "Box@foo::Box()"),
        ("_ZNW3foo3BoxD2Ev", "Box@foo::~Box()"),
        ("_ZN6shapesW6shapes3Box4nameB5cxx11Ev", "shapes::Box@shapes::name[abi:cxx11]()"),
        (
            "_ZNK6shapesW6shapes3Box6scaledIS1_EET_S3_RKNS_S0_3BarE",
            "shapes::Box@shapes shapes::Box@shapes::scaled<shapes::Box@shapes>(shapes::Box@shapes, shapes::Bar@shapes const&) const",
        ),
        (
            "_ZNKW3foo3Box3addERKS_3BazRKW3bar3QuxRKS5_3Zap",
            "Box@foo::add(Baz@foo const&, Qux@bar const&, Qux@bar const&, Zap) const",
        ),
        (
            "_ZNW3foo3Box3addIXaaltLi1ELi2ELi3EEEEvRKS_3BazRA8_KS2_",
            "void Box@foo::add<((1)<(2))&&(3)>(Baz@foo const&, Baz@foo const (&) [8])",
        ),
        ("_ZN4testE", "test"),
        ("_Z3fooI1WEvT_", "void foo<W>(W)"),
        ("_ZNW3foo3BoxIN4kind1KELi3EE1fERKS_1AS5_", "Box@foo<kind::K, 3>::f(A@foo const&, A@foo const)"),
        ("_ZW3foo1fN1a1bE", "f@foo(a::b)"),
        ("_ZL3barRKW3foo1AS0_", "bar(A@foo const&, A@foo)"),
        ("_ZNW3foo1AcvbEv", "A@foo::operator bool()"),
        ("_ZZW3foo1fRKS_1AE1x", "f@foo(A@foo const&)::x"),
    ] {
        assert_eq!(demangle(linkage), expected, "{linkage}");
    }
}

/// As `c++filt` writes them.
#[test]
fn constructors_have_their_parameters() {
    for (linkage, expected) in [
        ("_ZN1AC2IiEET_", "A::A<int>(int)"),
        ("_ZN1AC1IiEEi", "A::A<int>(int)"),
        ("_ZN1AC1IiEEv", "A::A<int>()"),
        ("_ZN1AC1Ei", "A::A(int)"),
        ("_ZN1AC1IiEEOT_i", "A::A<int>(int&&, int)"),
        ("_ZN1AIiEC1IJidEEEDpT_", "A<int>::A<int, double>(int, double)"),
        ("_ZN1AIiEC2ERKS0_", "A<int>::A(A<int> const&)"),
        ("_ZZN1AC1IiEET_E1x", "A::A<int>(int)::x"),
        ("_ZN1AC1INS_1BEEERKS_T_", "A::A<A::B>(A const&, A::B)"),
        (
            "_ZNSt10unique_ptrI1BSt14default_deleteIS0_EEC2IS2_vEEPS0_",
            "std::unique_ptr<B, std::default_delete<B> >::unique_ptr<std::default_delete<B>, void>(B*)",
        ),
        (
            "_ZNSt8functionIFvvEEC2IZ4mainE3$_0vEEOT_",
            "std::function<void ()>::function<main::$_0, void>(main::$_0&&)",
        ),
        ("_ZNW3foo1AC1IiEET_RKS0_", "A@foo::A<int>(int, A@foo const&)"),
    ] {
        assert_eq!(demangle(linkage), expected, "{linkage}");
    }
}

#[test]
fn what_is_not_understood_stays() {
    for linkage in [
        "_ZW",
        "_ZW3fo",
        "_ZGI",
        "_ZGIW",
        "_ZGIW3fooX",
        "_ZNW3fooE",
        "_ZW3foov",
        "_ZW99999999999999999999x",
        "_ZW3foocvb",
        "_ZW3fooD",
        "_ZN1AC",
    ] {
        assert_eq!(demangle(linkage), linkage);
    }
    // No substitution is a module.
    assert_eq!(demangle("_Z4WalkS_3Baz"), "_Z4WalkS_3Baz");
    let long = format!("_ZW3foo{}{}v", 3000, "a".repeat(3000));
    assert_eq!(demangle(&long), long);
    let many: String = (0..36)
        .filter_map(|digit| char::from_digit(digit, 36))
        .map(|d| format!("S{}_1a", d.to_ascii_uppercase()))
        .collect();
    let many = format!("_ZW3foo3bar{many}");
    assert_eq!(demangle(&many), many);
}
