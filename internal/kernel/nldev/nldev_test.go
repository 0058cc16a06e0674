package nldev

import (
	"encoding/binary"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/netlink"
)

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func u64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// fake answers as a kernel with two devices. The driver of the second is not known.
func fake(t *testing.T) netlink.Ask {
	return func(typ, flags uint16, q []byte, do func(uint16, []byte) error) error {
		var list [][]byte
		attr := netlink.Attr
		switch a, err := netlink.Attrs(q); {
		case err != nil:
			t.Fatal(err)
		case typ == cmdGet && flags&netlink.FlagDump != 0:
			list = [][]byte{
				slices.Concat(attr(attrIndex, u32(0)), attr(attrName, []byte("mlx5_0\x00")),
					attr(attrNodeGUID, u64(0xe41d2d0300e00000)), attr(attrNodeType, []byte{1})),
				slices.Concat(attr(attrIndex, u32(7)), attr(attrName, []byte("rxe0\x00"))),
			}
		case typ == cmdGetChardev && text(a[attrChardevType]) == "uverbs":
			if n, ok := number(a[attrIndex]); !ok || n != 0 {
				return syscall.EOPNOTSUPP
			}
			list = [][]byte{slices.Concat(attr(attrDriver, u32(1)), attr(attrChardevName, []byte("uverbs3\x00")),
				attr(attrChardev, u64(231<<8|195)), attr(attrChardevABI, u64(1)))}
		default:
			t.Fatalf("message %d with %v", typ, a)
		}
		for _, body := range list {
			if err := do(typ, body); err != nil {
				return err
			}
		}
		return nil
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

// TestDevices_Damaged: attributes that are not whole are an error.
func TestDevices_Damaged(t *testing.T) {
	got, err := devices(func(typ, _ uint16, _ []byte, do func(uint16, []byte) error) error {
		return do(typ, []byte{9, 0, 1, 0})
	})
	if err == nil {
		t.Errorf("devices are %v", got)
	}
}

// TestDevices_Sizes: an index of a size that no kernel sends is none.
func TestDevices_Sizes(t *testing.T) {
	for size := range 10 {
		got, err := devices(func(typ, flags uint16, _ []byte, do func(uint16, []byte) error) error {
			if flags&netlink.FlagDump == 0 {
				return nil
			}
			index := netlink.Attr(attrIndex, make([]byte, size))
			return do(typ, append(index, netlink.Attr(attrName, []byte("x\x00"))...))
		})
		if known := size == 1 || size == 4 || size == 8; err != nil || (len(got) == 1) != known {
			t.Errorf("with an index of %d bytes the devices are %v, %v", size, got, err)
		}
	}
}
