//go:build linux

package verbs

import (
	"reflect"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Record is one command that was answered, for the trace.
type Record struct {
	PID      int
	Context  *hca.Context
	Name     string // "create_qp"
	Request  any    // a struct of package uapi, or nil if the command has no more to say
	Response any
	Errno    unix.Errno
}

// Field is a field of a request or an answer.
type Field struct {
	Name  string
	Value any
}

// Fields lists the fields of a request or an answer, nested ones in the place of what they are in, without those of the
// interface's own.
func Fields(v any) (fs []Field) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Struct {
		if r.IsValid() {
			fs = append(fs, Field{"", v})
		}
		return fs
	}
	for i := range r.NumField() {
		f := r.Type().Field(i)
		switch {
		case f.Name == "_", strings.HasPrefix(f.Name, "Response"), strings.HasPrefix(f.Name, "Reserved"),
			f.Name == "CompMask":
		case f.Type.Kind() == reflect.Struct:
			for _, n := range Fields(r.Field(i).Interface()) {
				fs = append(fs, Field{f.Name + "." + n.Name, n.Value})
			}
		default:
			fs = append(fs, Field{f.Name, r.Field(i).Interface()})
		}
	}
	return fs
}
