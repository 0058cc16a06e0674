package cm

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // of the error
	}{
		{"good", []string{"-n", "7"}, ""},
		{"unknown flag", []string{"-x"}, "unknown shorthand flag"},
		{"argument", []string{"here"}, `"here": no arguments beside the flags`},
		{"below", []string{"-n", "0"}, "-n 0: want 1 to 9"},
		{"above", []string{"-n", "10"}, "-n 10: want 1 to 9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Flags("prog")
			n := f.IntP("number", "n", 1, "a `number`")
			err := Parse(f, tt.args, "prog [options]\n", func() error { return Within("-n", *n, 1, 9) })
			var usage *UsageError
			switch {
			case tt.want == "" && (err != nil || *n != 7):
				t.Errorf("%v, n = %d", err, *n)
			case tt.want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	f := Flags("prog")
	f.IntP("number", "n", 1, "a `number`")
	var help *HelpError
	if err := Parse(f, []string{"-h"}, "prog [options]\n", nil); !errors.As(err, &help) || !strings.HasPrefix(help.Text,
		"prog [options]\n\n  -n, --number number") {
		t.Errorf("-h: %v %+v", err, help)
	}
}

func TestPayload(t *testing.T) {
	b := make([]byte, 1000)
	Fill(b, 3)
	if err := Check(b, 3); err != nil {
		t.Error(err)
	}
	var wrong *PayloadError
	if err := Check(b, 4); !errors.As(err, &wrong) || wrong.Offset != 0 {
		t.Errorf("another message: %v", err)
	}
	for i := range b {
		b[i] ^= 0x10
		if err := Check(b, 3); !errors.As(err, &wrong) || wrong.Offset != i || wrong.Got != b[i] ||
			wrong.Want != b[i]^0x10 {
			t.Fatalf("byte %d: %v", i, err)
		}
		b[i] ^= 0x10
	}
}
