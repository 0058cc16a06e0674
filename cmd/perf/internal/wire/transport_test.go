package wire

import (
	"strings"
	"testing"
)

func TestTransport(t *testing.T) {
	for name, want := range map[string]Transport{"RC": RC, "rc": RC, "Uc": UC, "UD": UD, "xrc": XRC, "Dc": DC,
		"srd": SRD, "rawEth": RawEth} {
		if tr, err := ParseTransport(name); err != nil || tr != want {
			t.Errorf("%s: %v, %v", name, tr, err)
		}
	}
	for name, want := range map[string]string{"RD": `"RD"; allowed: RC, UC, UD, XRC, DC, SRD and RawEth`} {
		if _, err := ParseTransport(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if s := Transport(9).String(); s != "Transport(9)" {
		t.Errorf("an unknown transport is %q", s)
	}
}
