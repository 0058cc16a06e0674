package ibv

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

// What this package and an engine read and write in the same memory is the same to both, field by field.
func TestLayouts(t *testing.T) {
	sameLayout(t, "WC", reflect.TypeFor[WC](), reflect.TypeFor[mlx5.WC]())
	sameLayout(t, "RecvWR", reflect.TypeFor[RecvWR](), reflect.TypeFor[mlx5.RecvWR]())
	sameLayout(t, "SendWR", reflect.TypeFor[SendWR](), reflect.TypeFor[work.SendWR]())
	sameLayout(t, "brief", reflect.TypeFor[brief](), reflect.TypeFor[work.Brief]())
}

func sameLayout(t *testing.T, what string, ours, theirs reflect.Type) {
	t.Helper()
	if ours.Kind() != theirs.Kind() || ours.Size() != theirs.Size() || ours.Align() != theirs.Align() {
		t.Errorf("%s: %v of %d bytes, and %v of %d bytes", what, ours, ours.Size(), theirs, theirs.Size())
		return
	}
	switch ours.Kind() {
	case reflect.Struct:
		if ours.NumField() != theirs.NumField() {
			t.Errorf("%s: %d fields, and %d", what, ours.NumField(), theirs.NumField())
			return
		}
		for i := range ours.NumField() {
			a, b := ours.Field(i), theirs.Field(i)
			named := strings.HasPrefix(strings.ToLower(b.Name), strings.ToLower(a.Name)) // brief.op is Brief.Opcode
			if !named || a.Offset != b.Offset {
				t.Errorf("%s: %s at %d, and %s at %d", what, a.Name, a.Offset, b.Name, b.Offset)
			}
			sameLayout(t, what+"."+a.Name, a.Type, b.Type)
		}
	case reflect.Array, reflect.Pointer, reflect.Slice:
		if theirs.Elem() != reflect.TypeFor[work.Theirs]() { // which no engine looks into
			sameLayout(t, what, ours.Elem(), theirs.Elem())
		}
	}
}
