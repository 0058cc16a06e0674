package nldev

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"syscall"
	"testing"
)

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func u64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// answer makes a message of the kernel.
func answer(typ uint16, seq uint32, attributes ...[]byte) []byte {
	return request(typ, 0, seq, attributes...)
}

// fake answers as a kernel with two devices. The driver of the second is not known.
func fake(t *testing.T) exchange {
	seq := uint32(0)
	return func(typ, flags uint16, q []byte, do func(map[uint16][]byte)) error {
		seq++
		var list [][]byte
		switch a, err := attrs(q); {
		case err != nil:
			t.Fatal(err)
		case typ == cmdGet && flags&flagDump != 0:
			list = [][]byte{
				append(answer(cmdGet, seq, attr(attrIndex, u32(0)), attr(attrName, []byte("mlx5_0\x00")),
					attr(attrNodeGUID, u64(0xe41d2d0300e00000)), attr(attrNodeType, []byte{1})),
					answer(cmdGet, seq, attr(attrIndex, u32(7)), attr(attrName, []byte("rxe0\x00")))...),
				answer(typeDone, seq, u32(0)),
			}
		case typ == cmdGetChardev && text(a[attrChardevType]) == "uverbs":
			if n, ok := number(a[attrIndex]); !ok || n != 0 {
				return syscall.EOPNOTSUPP
			}
			list = [][]byte{answer(cmdGetChardev, seq-1, attr(attrDriver, u32(9))), // of another request
				answer(cmdGetChardev, seq, attr(attrDriver, u32(1)), attr(attrChardevName, []byte("uverbs3\x00")),
					attr(attrChardev, u64(231<<8|195)), attr(attrChardevABI, u64(1))), answer(typeError, seq, u32(0))}
		default:
			t.Fatalf("message %d with %v", typ, a)
		}
		return answers(seq, flags&flagDump != 0, func() ([]byte, error) {
			if len(list) == 0 {
				return nil, io.EOF
			}
			b := list[0]
			list = list[1:]
			return b, nil
		}, do)
	}
}

func TestDevices(t *testing.T) {
	got, err := devices(fake(t))
	want := map[string]Device{"mlx5_0": {Index: 0, Driver: 1, GUID: 0xe41d2d0300e00000, Type: 1,
		File: File{Name: "uverbs3", Number: 231<<8 | 195, ABI: 1}}, "rxe0": {Index: 7}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("devices are %v, %v; want %v", got, err, want)
	}
}

func TestAnswers_Error(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"refused", answer(typeError, 1, u32(^uint32(syscall.EPERM)+1)), syscall.EPERM},
		{"an error without a number", answer(typeError, 1), errShort},
		{"half a header", answer(cmdGet, 1)[:8], errShort},
		{"longer than what came", append(u32(64), make([]byte, 12)...), errShort},
		{"shorter than its header", append(u32(4), make([]byte, 12)...), errShort},
		{"an attribute that is too long", answer(cmdGet, 1, []byte{9, 0, 1, 0}), errShort},
		{"an attribute that is too short", answer(cmdGet, 1, []byte{1, 0, 1, 0}), errShort},
	} {
		err := answers(1, true, func() ([]byte, error) { return c.b, nil }, func(map[uint16][]byte) {})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(answer(cmdGet, 1, attr(attrIndex, u32(3)), attr(attrName, []byte("x\x00"))))
	f.Add(answer(typeError, 1, u32(0)))
	f.Fuzz(func(_ *testing.T, b []byte) {
		n := 0
		_ = answers(1, true, func() ([]byte, error) {
			if n++; n > 2 {
				return nil, io.EOF
			}
			return b, nil
		}, func(a map[uint16][]byte) { _, _ = number(a[attrIndex]) })
	})
}
