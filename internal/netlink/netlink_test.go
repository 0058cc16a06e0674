package netlink

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"syscall"
	"testing"
)

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// answer makes a message of the kernel.
func answer(typ uint16, seq uint32, attributes ...[]byte) []byte {
	return request(typ, 0, seq, slices.Concat(attributes...))
}

// parsed reads the attributes of an answer.
func parsed(_ uint16, b []byte) error {
	_, err := Attrs(b)
	return err
}

const some = 5<<10 | 1 // a type of answers

// TestAnswers: answers to other messages are passed over, and one answer ends what asks for one.
func TestAnswers(t *testing.T) {
	other, two := answer(some, 1, Attr(1, []byte{1})), answer(some, 2, Attr(1, []byte{8}))
	one := answer(some, 2, Attr(1, []byte{7}), Attr(2, []byte("x\x00")))
	for _, many := range []bool{false, true} {
		list := [][]byte{other, slices.Concat(one, two), answer(typeDone, 2, u32(0))}
		var got []byte
		err := answers(2, many, func() ([]byte, error) {
			if len(list) == 0 {
				return nil, io.EOF
			}
			b := list[0]
			list = list[1:]
			return b, nil
		}, func(typ uint16, b []byte) error {
			a, err := Attrs(b)
			if len(got) == 0 && !maps.EqualFunc(a, map[uint16][]byte{1: {7}, 2: []byte("x\x00")}, slices.Equal) {
				t.Errorf("the first answer has %v", a)
			}
			if typ != some {
				t.Errorf("type %d, want %d", typ, some)
			}
			got = append(got, a[1]...)
			return err
		})
		want := []byte{7}
		if many {
			want = []byte{7, 8}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("many is %v: answers %v, %v; want %v", many, got, err, want)
		}
	}
}

func TestAnswers_Error(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"refused", answer(typeError, 1, u32(^uint32(syscall.EPERM)+1)), syscall.EPERM},
		{"an error that is none", answer(typeError, 1, u32(0)), nil},
		{"an error without a number", answer(typeError, 1), errShort},
		{"half a header", answer(some, 1)[:8], errShort},
		{"longer than what came", append(u32(64), make([]byte, 12)...), errShort},
		{"shorter than its header", append(u32(4), make([]byte, 12)...), errShort},
		{"an attribute that is too long", answer(some, 1, []byte{9, 0, 1, 0}), errShort},
		{"an attribute that is too short", answer(some, 1, []byte{1, 0, 1, 0}), errShort},
	} {
		err := answers(1, true, func() ([]byte, error) { return c.b, nil }, parsed)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(answer(some, 1, Attr(3, u32(3)), Attr(2, []byte("x\x00"))))
	f.Add(answer(typeError, 1, u32(0)))
	f.Fuzz(func(_ *testing.T, b []byte) {
		n := 0
		_ = answers(1, true, func() ([]byte, error) {
			if n++; n > 2 {
				return nil, io.EOF
			}
			return b, nil
		}, parsed)
	})
}
