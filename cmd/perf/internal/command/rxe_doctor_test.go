package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
)

// TestRXE_Doctor looks at the machine with all in order, and with a port down.
func TestRXE_Doctor(t *testing.T) {
	vm := needOnce(t)
	look := func() (r doctor.Report, code int) {
		t.Helper()
		var out, diag bytes.Buffer
		code = run(t.Context(), []string{"doctor", "--json"}, &out, &diag)
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || diag.Len() > 0 {
			t.Fatalf("%v, stderr %q\n%s", err, &diag, &out)
		}
		return r, code
	}
	has := func(r doctor.Report, s doctor.Severity, subject, check string) bool {
		return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
			return f.Severity == s && f.Subject == subject && f.Check == check
		})
	}
	port := vm.Dev[1] + "/1"
	r, code := look()
	if !has(r, doctor.OK, port, "port") || !has(r, doctor.OK, port, "gid") ||
		!has(r, doctor.OK, vm.Dev[1], "permission") || has(r, doctor.Error, vm.Dev[1], "open") ||
		code == exitUsage || code == exitFailure {
		t.Errorf("in order: exit code %d, %+v", code, r.Findings)
	}
	vm.SetLink(t, 1, false)
	if r, code = look(); !has(r, doctor.Warning, port, "port") || code != exitLimit && code != exitError {
		t.Errorf("down: exit code %d, %+v", code, r.Findings)
	}
	var out, diag bytes.Buffer
	code = run(t.Context(), []string{"doctor", "--reason", "--fail-on=error"}, &out, &diag)
	want := map[bool]int{true: exitError, false: exitOK}[r.Worst == doctor.Error]
	if code != want || out.String() != r.Reason()+"\n" {
		t.Errorf("--reason --fail-on=error: exit code %d, want %d; %q, want %q", code, want, &out, r.Reason())
	}
}
