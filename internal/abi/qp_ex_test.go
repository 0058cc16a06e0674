package abi

import (
	"reflect"
	"strings"
	"testing"
)

// TestQPEx compares QPEx with each release that has struct ibv_qp_ex.
func TestQPEx(t *testing.T) {
	for _, version := range versions {
		l := readLayout(t, version)
		c := l["struct ibv_qp_ex"]
		if c == nil {
			if version != "v17" {
				t.Errorf("%s has no struct ibv_qp_ex", version)
			}
			continue
		}
		base := OffQPEx + l["struct ibv_context"].Fields["mutex"][1] - 40
		byName := make(map[string]string)
		for name := range c.Fields {
			byName[plain(strings.TrimPrefix(name, "wr_"))] = name
		}
		seen := 1 // qp_base
		typ := reflect.TypeFor[QPEx]()
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			got, ok := c.Fields[byName[strings.TrimPrefix(plain(f.Name), "wr")]]
			switch want := (cField{base + int(f.Offset), int(f.Type.Size())}); {
			case !ok && int(f.Offset)+base < c.Size:
				t.Errorf("%s: %s is not in C", version, f.Name)
			case ok && got != want:
				t.Errorf("%s: %s is at %v, in C at %v", version, f.Name, want, got)
			case ok:
				seen++
			}
		}
		if seen != len(c.Fields) {
			t.Errorf("%s: %d of %d fields were compared", version, seen, len(c.Fields))
		}
		if strings.HasPrefix(version, newest) && base+int(typ.Size()) != c.Size {
			t.Errorf("%s: %d bytes, in C %d", version, base+int(typ.Size()), c.Size)
		}
	}
	for _, p := range hostLayout(reflect.TypeFor[QPEx]()) {
		t.Error(p)
	}
}
