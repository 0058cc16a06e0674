//go:build linux && amd64 && !race

package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// masked are fields of commands whose values are not compared, but only whether they are 0.
var masked = regexp.MustCompile(`Handle$|Addr$|^Start$|^HcaVa$|PSN$|FlowLabel$`)

// differences lists how often the two control paths may differ in what they send, with the reasons. Each must occur.
var differences = []struct{ what, why string }{
	{"create_srq MaxWR", "libmlx5 has room for receives that wait for a page"},
	{"rereg_mr Start", "libibverbs names the memory also if it does not change"},
	{"rereg_mr HcaVa", "the same"},
	{"rereg_mr Length", "the same"},
	{"alloc_pd times", "librdmacm makes a PD for each device"},
	{"dealloc_pd times", "the same"},
	{"devx_other times", "libmlx5 asks what the device can do when it opens it, the native path when it has to know"},
	{"query_device_ex times", "the same"},
	{"query_port times", "the same, and libmlx5 asks for each address handle"},
	{"query_context times", "the library path asks here whether headers are inline, which the native path has read"},
	{"uar_alloc times", "libmlx5 has a page for CQs alone, and a register for the receiving QP of an XRC domain"},
	{"uar_destroy times", "the same"},
	{"CM_BIND times", "librdmacm sends an older command for addresses of IPv4, and asks by this one for AF_IB"},
	{"CM_BIND_IP times", "the same"},
	{"CM_RESOLVE_IP times", "the same"},
	{"CM_RESOLVE_ADDR times", "the same"},
	{"CM_JOIN_IP_MCAST times", "the same"},
	{"CM_JOIN_MCAST times", "the same"},
	{"CM_CREATE_ID times", "an ID by which librdmacm asks whether the kernel knows AF_IB"},
	{"CM_DESTROY_ID times", "the same"},
	{"CM_WRITE_CM_EVENT times", "librdmacm before v60 has no rdma_write_cm_event"},
	{"CM_GET_EVENT times", "the same"},
}

// TestEmuNative_Differences runs the program on both control paths, and compares each command, work request, receive
// and completion.
func TestEmuNative_Differences(t *testing.T) {
	var traces, seen [2]string
	for i, c := range []ibv.ControlPath{ibv.ControlLibrary, ibv.ControlNative} {
		traces[i] = filepath.Join(t.TempDir(), "trace")
		seen[i] = emulator{role: "once", control: c, env: []string{seenEnv + "=1"},
			flags: []string{"--trace=" + traces[i], "--trace-json"}}.run(t)
	}
	if seen[0] != seen[1] || strings.Contains(seen[0], "wrong: ") || strings.Count(seen[0], "seen: ") < 8 {
		t.Errorf("the library's program has seen\n%s\nthe native one\n%s", seen[0], seen[1])
	}
	var found []string
	commands := [2]map[string][]map[string]any{}
	rings := [2]map[string][]string{}
	for i, file := range traces {
		commands[i] = commandsOf(readTrace(t, file, "cmd", "cm"))
		rings[i] = ringsOf(readTrace(t, file, "wqe", "recv", "cqe", "doorbell"))
	}
	for _, name := range names(commands[0], commands[1]) {
		found = append(found, differ(t, name, commands[0][name], commands[1][name])...)
	}
	n := 0
	for _, queue := range names(rings[0], rings[1]) {
		if a, b := rings[0][queue], rings[1][queue]; !slices.Equal(a, b) {
			t.Errorf("%s:\nlibrary %s\nnative  %s", queue, strings.Join(a, "\n        "), strings.Join(b, "\n        "))
		}
		n += len(rings[0][queue])
	}
	t.Logf("%d commands and %d entries of %d queues are the same", len(commands[0]), n, len(rings[0]))
	if n < 20 || len(commands[0]) < 70 {
		t.Error("that is too little: nothing was compared")
	}
	for _, d := range differences {
		if !slices.Contains(found, d.what) {
			t.Errorf("%s: no difference, so there is nothing to explain by %q", d.what, d.why)
		}
	}
	for _, f := range slices.Compact(slices.Sorted(slices.Values(found))) {
		if !slices.ContainsFunc(differences, func(d struct{ what, why string }) bool { return d.what == f }) {
			t.Errorf("%s: library and native path differ, and nothing says why", f)
		}
	}
}

func names[T any](a, b map[string]T) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// commandsOf returns the requests of each command.
func commandsOf(list []line) map[string][]map[string]any {
	m := make(map[string][]map[string]any)
	for _, l := range list {
		r := make(map[string]any)
		for k, v := range l.Req {
			if i := strings.LastIndex(k, "."); masked.MatchString(k[i+1:]) {
				v = "not 0"
			}
			r[k] = v
		}
		m[l.Name] = append(m[l.Name], r)
	}
	return m
}

// differ returns what differs in the requests of a command. If one path sends it more often, each of its requests must
// be one that the other sends also.
func differ(t *testing.T, name string, library, native []map[string]any) (found []string) {
	t.Helper()
	if len(library) != len(native) {
		for i, list := range [][]map[string]any{library, native} {
			other := [][]map[string]any{native, library}[i]
			for _, r := range list {
				same := func(o map[string]any) bool { return maps.Equal(o, r) }
				if len(other) > 0 && !slices.ContainsFunc(other, same) {
					t.Errorf("%s: only one path sends %v", name, r)
				}
			}
		}
		return []string{name + " times"}
	}
	for i := range library {
		for _, field := range names(library[i], native[i]) {
			if a, b := library[i][field], native[i][field]; a != b {
				t.Logf("%s, number %d: %s is %v by the library, %v natively", name, i, field, a, b)
				found = append(found, name+" "+field)
			}
		}
	}
	return found
}

// ringsOf returns the entries of each queue, without what depends on the time and on where memory is.
func ringsOf(list []line) map[string][]string {
	m := make(map[string][]string)
	for _, l := range list {
		queue := fmt.Sprint(l.Kind, " ", l.all["qp"], l.all["srq"])
		for _, key := range []string{"us", "pid"} {
			delete(l.all, key)
		}
		offsets(l.all)
		b, _ := json.Marshal(l.all)
		m[queue] = append(m[queue], string(b))
	}
	return m
}

// offsets leaves of each address its offset in the page.
func offsets(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if s, ok := x.(string); ok && (strings.HasSuffix(k, "addr") || k == "start") && len(s) > 3 {
				v[k] = s[len(s)-3:]
			}
			offsets(x)
		}
	case []any:
		for _, x := range v {
			offsets(x)
		}
	}
}
