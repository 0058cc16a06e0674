//go:build linux

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// TestCheckRows runs each outcome of a test that is expected to fail.
func TestCheckRows(t *testing.T) {
	lacks := native.Reason{Text: "lacks", Shows: regexp.MustCompile(`no such verb`)}
	row := func(test string) native.Row { return native.NewRow("ibv", test, lacks) }
	ran := []Result{
		{"emu", "p", "TestFails", Fail, "a_test.go:1: there is no such verb\n"},
		{"emu", "p", "TestSub", Fail, ""}, {"emu", "p", "TestSub/x", Fail, "no such verb\n"},
		{"emu", "p", "TestPasses", Pass, ""},
		{"emu", "p", "TestOther", Fail, "panic: nil\n"},
		{"emu", "p", "TestSkips", Skip, "needs root\n"},
		{"emu", "p", "TestRows/a/DC", Fail, "no such verb\n"}, {"emu", "p", "TestRows/b/DC", Pass, ""},
	}
	var have []string
	for _, r := range checkRows([]native.Row{row("TestFails"), row("TestSub"), row("TestPasses"), row("TestOther"),
		row("TestSkips"), row("TestRows/.*/DC"), row("TestRows/.*/XRC"), row("TestGone")}, ran, false) {
		text := map[Status]string{Pass: "ok", Fail: "wrong", Skip: "skipped"}[r.Status]
		have = append(have, r.Test+" "+text+" "+strings.SplitN(r.Output, ":", 2)[0])
	}
	want := []string{"TestFails ok ", "TestSub ok ",
		"TestPasses wrong it passes on the native control path",
		"TestOther wrong it fails for another reason than its row has (lacks)",
		"TestSkips skipped needs root\n", "TestRows/a/DC ok ",
		"TestRows/b/DC wrong it passes on the native control path",
		"TestGone wrong it did not run\n"}
	if !slices.Equal(have, want) {
		t.Errorf("got\n%q, want\n%q", have, want)
	}
	if res := checkRows([]native.Row{row("TestRows/.*/XRC")}, ran, true); len(res) != 1 || res[0].Status != Fail {
		t.Errorf("a full run without a test of the row: %v", res)
	}
	if have, want := pattern([]native.Row{row("TestA"), row("TestB/c")}), "^TestA$|^TestB$/^c$"; have != want {
		t.Errorf("pattern %s, want %s", have, want)
	}
}

// TestNativeRows checks that each row is about one package that runs on the native control path, once.
func TestNativeRows(t *testing.T) {
	seen := map[string]bool{}
	tests := table.Tiers["emu"][0].Tests
	for _, r := range native.Rows {
		if _, ok := tests[r.Dir]; !ok {
			t.Errorf("%s %s: the package does not run", r.Dir, r.Test)
		}
		if k := r.Dir + " " + r.Test; seen[k] {
			t.Errorf("%s is there twice", k)
		}
		seen[r.Dir+" "+r.Test] = true
	}
}

// TestProofNative: what runs on the native control path shows nothing about libibverbs.
func TestProofNative(t *testing.T) {
	var p proof
	if err := p.UnmarshalText([]byte("emu ibv TestRXE_A")); err != nil {
		t.Fatal(err)
	}
	for variant, want := range map[string]bool{"direct": true, nativeVariant: false, nativeRows: false} {
		r := Result{"emu", variant + " " + module + "/ibv", "TestRXE_A", Skip, ""}
		if p.about(r) != want {
			t.Errorf("%s: %v, want %v", variant, !want, want)
		}
	}
}
