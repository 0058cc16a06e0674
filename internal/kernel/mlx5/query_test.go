package mlx5

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// TestDeviceAttr compares the fields behind the version of the firmware.
func TestDeviceAttr(t *testing.T) {
	var fields [2][]reflect.StructField
	for i, typ := range []reflect.Type{reflect.TypeFor[abi.UverbsQueryDeviceResp](),
		reflect.TypeFor[abi.DeviceAttr]()} {
		for _, f := range reflect.VisibleFields(typ) {
			if f.IsExported() {
				fields[i] = append(fields[i], f)
			}
		}
	}
	kernel, library := fields[0], fields[1]
	if len(kernel) != len(library) {
		t.Fatalf("%d and %d fields", len(kernel), len(library))
	}
	for i, k := range kernel[1:] {
		l := library[i+1]
		if !strings.EqualFold(k.Name, l.Name) || k.Type.Size() != l.Type.Size() ||
			k.Offset-kernel[1].Offset != l.Offset-library[1].Offset {
			t.Errorf("field %d is %+v and %+v", i+1, k, l)
		}
	}
	a := deviceAttr(&abi.UverbsQueryDeviceResp{FWVer: 1<<32 | 2<<16 | 3, NodeGUID: 4, MaxSRQSGE: 5, PhysPortCnt: 6})
	if string(a.FWVer[:9]) != "1.2.0003\x00" || a.NodeGUID != 4 || a.MaxSRQSGE != 5 || a.PhysPortCnt != 6 {
		t.Errorf("%+v", a)
	}
}
