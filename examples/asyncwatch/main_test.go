package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun_Usage(t *testing.T) {
	for args, want := range map[string]string{
		"rxe0":   "name devices with -d",
		"-n -1":  "want 0 or more",
		"-t -1s": "want 0 or more",
		"-t 5":   `like "30s"`,
		"-z":     "-z",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 2 || out.Len() > 0 ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &out, &errs); code != 0 || errs.Len() > 0 ||
		!strings.Contains(out.String(), "--timeout") {
		t.Errorf("-h: code %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}
