//go:build linux && amd64 && !race

package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// unused are commands of the emulator that the program does not send, with the reason.
var unused = map[string]string{
	"alloc_dmah":       missing,
	"free_dmah":        missing,
	"mlx5_dm_map_op":   "no memory of an emulated device has operations",
	"uar_destroy":      "registers end with the file",
	"devx_query_uar":   "of registers that a kernel makes with the context",
	"create_xsrq":      "of kernels without the method of create_srq",
	"cm_bind_ip":       older,
	"cm_resolve_ip":    older,
	"cm_join_ip_mcast": older,
	"cm_query":         "of addresses of InfiniBand",
	"info_handles":     unread,
	"mlx5_query_port":  unread,
	"query_port_speed": unread,
	"invoke_write":     "the trace has the command in it",
}

const (
	missing = "the native control path does not have it yet: docs/native.md"
	older   = "a later command does the same"
	unread  = "nothing needs the reply"
)

// known returns the commands that the emulator knows, and its faults.
func known(t *testing.T) (commands, kinds []string) {
	t.Helper()
	out := emulator{role: "list", control: ibv.ControlNative}.run(t)
	lines := strings.Split(out, "\n")
	for i, list := range []*[]string{&commands, &kinds} {
		_, text, ok := strings.Cut(lines[i], "want one of ")
		if !ok {
			t.Fatalf("the emulator lists nothing: %s", out)
		}
		text, _, _ = strings.Cut(text, ", or an errno")
		*list = strings.Split(text, ", ")
	}
	return commands, kinds
}

// list has the emulator list its commands and faults.
func list() {
	emu, err := emutest.Connect()
	if err != nil {
		wrong("%v", err)
		return
	}
	_, commands := emu.Inject("eio:cmd=?")
	_, kinds := emu.Inject("?")
	fmt.Printf("%v\n%v\n", commands, kinds)
}

// sent returns how often the program sends each command, in a process that has run it before if the role is again.
func sent(t *testing.T, e emulator) map[string]int {
	t.Helper()
	file := t.TempDir() + "/trace"
	e.control, e.flags = ibv.ControlNative, []string{"--strict", "--trace=" + file, "--trace-json"}
	out := e.run(t)
	if strings.Contains(out, "wrong: ") {
		t.Fatal(out)
	}
	n := make(map[string]int)
	for _, c := range readTrace(t, file, "cmd", "cm") {
		n[strings.ToLower(c.Name)]++
	}
	return n
}

// specs returns faults of each command, in each of the ways and each time that it is sent. A short run has a sixth of
// the ways for a command, once.
func specs(sent map[string]int, commands []string, ways ...string) (list []string) {
	for c, name := range commands {
		for k, how := range ways {
			for i := range sent[name] {
				if testutil.Full() || (c+k)%6 == 0 && i == (c+k)%sent[name] {
					list = append(list, fmt.Sprintf("%s:cmd=%s,after=%d", how, name, i))
				}
			}
		}
	}
	return list
}

// TestEmuNative_Replies spoils the reply to each command of the program in each way, and refuses each command.
func TestEmuNative_Replies(t *testing.T) {
	commands, kinds := known(t)
	first, later := sent(t, emulator{role: "once"}), sent(t, emulator{role: "again"})
	for _, name := range commands {
		n, reason := first[name], unused[name]
		if first[name] -= later[name]; (n == 0) != (reason != "") && root() {
			t.Errorf("%s is sent %d times, and the list of unused commands says %q", name, n, reason)
		}
	}
	ways := []string{"einval", "enomem", "eio"}
	for _, k := range kinds {
		if strings.HasPrefix(k, "reply=") {
			ways = append(ways, k)
		}
	}
	if len(ways) != 6 {
		t.Errorf("the ways are %v", ways)
	}
	faulty(t, emulator{}, specs(later, commands, ways...))
	for _, spec := range specs(first, commands, ways...) { // what a process sends once
		t.Run(spec, func(t *testing.T) { alike(t, "--fault", spec) })
	}
}

// alike runs the program once, in an emulator of its own with these flags.
func alike(t *testing.T, flags ...string) (out string) {
	t.Helper()
	out = emulator{role: "alone", control: ibv.ControlNative, flags: flags, input: "A=B"}.run(t)
	report(t, out, 1)
	return out
}

// ofKind are the faults that are not of commands, with what they need. Those of a device that is removed have a test of
// their own.
var ofKind = map[string]string{"cqe-delayed": ":us=1000,every=1", "gid-change": ":index=200,gid=10.88.9.9",
	"device-removal": "-", "errno=NAME": "-", "reply=short": "-", "reply=long": "-", "reply=random": "-"}

// TestEmuNative_Faults runs the program with each other kind of fault, at each of its first operations.
func TestEmuNative_Faults(t *testing.T) {
	_, kinds := known(t)
	var list []string
	for _, k := range kinds {
		switch keys := ofKind[k]; keys {
		case "-":
		case "":
			for i := range 4 {
				list = append(list, fmt.Sprintf("%s:after=%d", k, i))
			}
		default:
			list = append(list, k+keys)
		}
	}
	faulty(t, emulator{}, list)
}

// faulty runs the program with each of the faults.
func faulty(t *testing.T, e emulator, specs []string) {
	t.Helper()
	e.role, e.control, e.input = "faults", ibv.ControlNative, strings.Join(specs, "\n")
	report(t, e.run(t), len(specs))
}

// report fails the test for what a role has found wrong, or if it has not run so often.
func report(t *testing.T, out string, runs int) {
	t.Helper()
	var lines []string
	n := 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "run: ") {
			n++
		} else {
			lines = append(lines, line)
		}
	}
	if n != runs || len(lines) > 0 {
		t.Errorf("%d runs, want %d and nothing wrong\n%s", n, runs, strings.Join(lines[:min(len(lines), 100)], ""))
	}
	if n != runs {
		t.Errorf("the end of its output:\n%s", out[max(0, len(out)-2000):])
	}
}
