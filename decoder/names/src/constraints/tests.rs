use super::MAX_DEPTH;
use crate::demangle;

/// Names from programs that clang-19 has compiled. `c++filt` does not know all of these. For the others its output is
/// the same, except for the constraints, which are left out here.
#[test]
fn what_templates_ask_is_left_out() {
    for (linkage, expected) in [
        ("_Z1fIiTnNSt9enable_ifIXsr3stdE13is_integral_vIT_EEiE4typeELi0EEvS1_", "void f<int, 0>(int)"),
        ("_Z1gITkSt8integraliEvT_", "void g<int>(int)"),
        ("_Z1kIiQgtstT_Li1EEvS0_", "void k<int>(int)"),
        ("_ZN1SIiE1mEvQsr3stdE8integralIT_E", "S<int>::m()"),
        ("_ZN1SIiEF2frES0_QLb1E", "S<int>::fr(S<int>)"),
        ("_ZF2frIiQeqstTL0__stT_Ev1FIiES1_", "void fr<int>(F<int>, int)"),
        ("_Z2nvITnDaLc99EEvv", "void nv<(char)99>()"),
        ("_Z5autosITpTnDaJEEvv", "void autos<>()"),
        ("_Z5autosITpTnDaJLi1ELc99EEEvv", "void autos<1, (char)99>()"),
        ("_Z2abITkSt8integraliTkSt14floating_pointdEvT_T0_", "void ab<int, double>(int, double)"),
        (
            "_Z2sfIiTnPNSt9enable_ifIXeqstT_Li4EES1_E4typeELPi0EEvS1_St6vectorIS1_SaIS1_EES8_",
            "void sf<int, (int*)0>(int, std::vector<int, std::allocator<int> >, std::vector<int, std::allocator<int> >)",
        ),
        (
            "_Z3reqISt6vectorIiSaIiEEQrQT__XcldtfL0p_4sizeETNS3_10value_typeEXcldtfL0p_5beginERSt7same_asINS3_8iteratorEEQgtstS3_Li2EEEvS3_PS3_",
            "void req<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> >, std::vector<int, std::allocator<int> >*)",
        ),
        ("_Z3tt2ITtTpTyESt6vectorEvPT_IJiEE", "void tt2<std::vector>(std::vector<int>*)"),
        ("_Z4callITkSt9invocableIiEZ4mainE3$_0EvT_", "void call<main::$_0>(main::$_0)"),
        ("_Z5packsITpTkSt8integralJEEvDpT_", "void packs<>()"),
        ("_Z5packsITpTkSt8integralJilEEvDpT_", "void packs<int, long>(int, long)"),
        ("_Z7nestedcITkN2ns3AnyEiEvT_PS1_", "void nestedc<int>(int, int*)"),
        (
            "_Z5sameiITkN2ns4SameIiEEiEvT_NS0_3BoxIS2_EES4_",
            "void samei<int>(int, ns::Box<int>, ns::Box<int>)",
        ),
        ("_ZN1MC2IiTnNSt9enable_ifIXsr3stdE13is_integral_vIT_EEiE4typeELi0EEES2_", "M::M<int, 0>(int)"),
        ("_ZN1McvPT_ITkSt8integraliEEv", "M::operator int*<int>()"),
        ("_ZN1MeqITkSt8integraliEEbT_", "bool M::operator==<int>(int)"),
        // A parameter in a constraint is not the function's own parameter of this number.
        ("_ZN2ns3BoxIiE3putITkNS_4SameIT_EEiEEvS4_", "void ns::Box<int>::put<int>(int)"),
        ("_ZN2ns3BoxIiE3getIiQ4SameITL0__T_EEEiPS4_", "int ns::Box<int>::get<int>(int*)"),
        (
            "_ZNSt4pairIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEEC2IiRA2_KcQcl16_S_constructibleITL0__TL0_0_EEEEOT_OT0_",
            "std::pair<int, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >::pair<int, char const (&) [2]>(int&&, char const (&) [2])",
        ),
        (
            "_ZNKSt8__detail10_Synth3wayclIPiS2_EEDaRKT_RKT0_QrqXltfp_fp0_RNS_18__boolean_testableEXltfp0_fp_RNS_18__boolean_testableEE",
            "auto std::__detail::_Synth3way::operator()<int*, int*>(int* const&, int* const&) const",
        ),
        (
            "_ZZ5trailIiEvT_N2ns3BoxIS0_EEQaasr3stdE8integralIS0_EgtstS0_Li1EENKUlPNS2_IiEES0_E_clIiEEDaS5_S0_",
            "auto void trail<int>(int, ns::Box<int>)::{lambda(ns::Box<int>*, auto:1)#1}::operator()<int>(ns::Box<int>*, int) const",
        ),
        (
            "_ZZ3lamvENKUlTkSt8integralT_E_clIiEEDaS_",
            "auto lam()::{lambda(auto:1)#1}::operator()<int>(int) const",
        ),
        ("_Z1gITkSt8integraliEvT_.cold", "void g<int>(int) [clone .cold]"),
    ] {
        assert_eq!(demangle(linkage), expected, "{linkage}");
    }
}

#[test]
fn what_is_not_understood_stays() {
    let deep = format!("_Z1gITk1C{}iEvv", "P".repeat(MAX_DEPTH as usize * 2));
    for linkage in [
        "_Z1gITk",
        "_Z1gITkSt8integraliEvT1_",
        "_Z1gITk99999999999999999999CiEvv",
        "_Z1gIiQ",
        "_Z1gIiQzzEvv",
        "_Z1gIiQLb1EvT_",
        "_Z1gITzSt8integraliEvT_",
        "_ZN1SF",
        "_Z1gITk19__18302718302710001iEvv",
        &deep,
    ] {
        assert_eq!(demangle(linkage), linkage);
    }
}
