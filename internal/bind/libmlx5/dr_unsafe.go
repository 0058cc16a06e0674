package libmlx5

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

func boolArg(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}

// struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_array(struct mlx5dv_dr_domain *domain, size_t num_dest,
// struct mlx5dv_dr_action_dest_attr *dests[]);
// Absent before v32.
func (l Lib) DRActionDestArray(domain uintptr, dests []control.DRDest) (uintptr, error) {
	attrs := make([]abi.MLX5DVDRActionDestAttr, len(dests))
	both := make([]abi.MLX5DVDRActionDestReformat, len(dests))
	list := make([]uintptr, len(dests))
	defer runtime.KeepAlive(&both)
	defer runtime.KeepAlive(&attrs)
	for i, d := range dests {
		attrs[i] = abi.MLX5DVDRActionDestAttr{Type: abi.MLX5DV_DR_ACTION_DEST, Dest: d.Dest}
		if d.Reformat != 0 {
			both[i] = abi.MLX5DVDRActionDestReformat{Reformat: d.Reformat, Dest: d.Dest}
			attrs[i] = abi.MLX5DVDRActionDestAttr{Type: abi.MLX5DV_DR_ACTION_DEST_REFORMAT,
				Dest: cmem.Heap(unsafe.Pointer(&both[i]))}
		}
		list[i] = cmem.Heap(unsafe.Pointer(&attrs[i]))
	}
	return l.lib.Ptr("mlx5dv_dr_action_create_dest_array", domain, uintptr(len(list)),
		uintptr(unsafe.Pointer(unsafe.SliceData(list))))
}

// struct mlx5dv_dr_action *mlx5dv_dr_action_create_packet_reformat(struct mlx5dv_dr_domain *domain, uint32_t flags,
// enum mlx5dv_flow_action_packet_reformat_type reformat_type, size_t data_sz, void *data);
func (l Lib) DRActionPacketReformat(domain uintptr, flags, way uint32, data []byte) (uintptr, error) {
	if len(data) == 0 {
		data = nil // libmlx5 wants NULL
	}
	return l.lib.Ptr("mlx5dv_dr_action_create_packet_reformat", domain, uintptr(flags), uintptr(way),
		uintptr(len(data)), uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

// struct mlx5dv_dr_action *mlx5dv_dr_action_create_flow_meter(struct mlx5dv_dr_flow_meter_attr *attr);
// Absent before v28.
func (l Lib) DRActionFlowMeter(attr *abi.MLX5DVDRFlowMeterAttr, param []byte) (uintptr, error) {
	attr.FlowMeterParameterSz, attr.FlowMeterParameter = uint64(len(param)), first(param)
	defer runtime.KeepAlive(&param)
	return l.lib.Ptr("mlx5dv_dr_action_create_flow_meter", uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_dr_action_modify_flow_meter(struct mlx5dv_dr_action *action, struct mlx5dv_dr_flow_meter_attr *attr,
// __be64 modify_field_select);
// Absent before v28.
func (l Lib) DRActionModifyFlowMeter(action uintptr, attr *abi.MLX5DVDRFlowMeterAttr, param []byte,
	fields uint64) error {
	attr.FlowMeterParameterSz, attr.FlowMeterParameter = uint64(len(param)), first(param)
	defer runtime.KeepAlive(&param)
	return l.lib.Err("mlx5dv_dr_action_modify_flow_meter", action, uintptr(unsafe.Pointer(attr)), uintptr(fields))
}

// struct mlx5dv_dr_action *mlx5dv_dr_action_create_flow_sampler(struct mlx5dv_dr_flow_sampler_attr *attr);
// Absent before v32.
func (l Lib) DRActionFlowSampler(attr *abi.MLX5DVDRFlowSamplerAttr, actions []uintptr) (uintptr, error) {
	attr.NumSampleActions, attr.SampleActions = uint32(len(actions)), first(actions)
	defer runtime.KeepAlive(&actions)
	return l.lib.Ptr("mlx5dv_dr_action_create_flow_sampler", uintptr(unsafe.Pointer(attr)))
}

// dumped returns what dump writes to a FILE, which is one in memory of the C library.
func dumped(dump func(file uintptr) error) ([]byte, error) {
	var fn [3]uintptr
	for i, name := range []string{"open_memstream", "fclose", "free"} {
		var err error
		if fn[i], err = ccall.Libc(name); err != nil {
			return nil, err
		}
	}
	// C keeps the addresses of these until the file is closed.
	out := &struct{ addr, size uintptr }{}
	var pin runtime.Pinner
	pin.Pin(out)
	defer pin.Unpin()
	file, err := ccall.Ptr(fn[0], uintptr(unsafe.Pointer(&out.addr)), uintptr(unsafe.Pointer(&out.size)))
	if err != nil {
		return nil, err
	}
	err = dump(file)
	if e := ccall.Minus1(fn[1], file); err == nil {
		err = e
	}
	if out.addr == 0 {
		return nil, err
	}
	b := cmem.Clone[byte](out.addr, int(out.size))
	if e := ccall.Void(fn[2], out.addr); err == nil {
		err = e
	}
	return b, err
}
