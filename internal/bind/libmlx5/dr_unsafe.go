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

// struct mlx5dv_dr_matcher *mlx5dv_dr_matcher_create(struct mlx5dv_dr_table *table, uint16_t priority,
// uint8_t match_criteria_enable, struct mlx5dv_flow_match_parameters *mask);
func (l Lib) DRMatcherCreate(table uintptr, priority uint16, criteria uint8, mask []byte) (uintptr, error) {
	m := match(mask)
	return l.lib.Ptr("mlx5dv_dr_matcher_create", table, uintptr(priority), uintptr(criteria),
		uintptr(unsafe.Pointer(&m[0])))
}

// struct mlx5dv_dr_rule *mlx5dv_dr_rule_create(struct mlx5dv_dr_matcher *matcher,
// struct mlx5dv_flow_match_parameters *value, size_t num_actions, struct mlx5dv_dr_action *actions[]);
func (l Lib) DRRuleCreate(matcher uintptr, value []byte, actions []uintptr) (uintptr, error) {
	m := match(value)
	return l.lib.Ptr("mlx5dv_dr_rule_create", matcher, uintptr(unsafe.Pointer(&m[0])), uintptr(len(actions)),
		uintptr(unsafe.Pointer(unsafe.SliceData(actions))))
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

// struct mlx5dv_dr_action *mlx5dv_dr_action_create_modify_header(struct mlx5dv_dr_domain *domain, uint32_t flags,
// size_t actions_sz, __be64 actions[]);
func (l Lib) DRActionModifyHeader(domain uintptr, flags uint32, actions []uint64) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_dr_action_create_modify_header", domain, uintptr(flags), uintptr(len(actions)*8),
		uintptr(unsafe.Pointer(unsafe.SliceData(actions))))
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

// int mlx5dv_dump_dr_domain(FILE *fout, struct mlx5dv_dr_domain *domain);
// Dumps are absent before v28.
func (l Lib) DumpDRDomain(domain uintptr) ([]byte, error) {
	return dumped(func(f uintptr) error { return l.lib.Err("mlx5dv_dump_dr_domain", f, domain) })
}

// int mlx5dv_dump_dr_table(FILE *fout, struct mlx5dv_dr_table *table);
func (l Lib) DumpDRTable(table uintptr) ([]byte, error) {
	return dumped(func(f uintptr) error { return l.lib.Err("mlx5dv_dump_dr_table", f, table) })
}

// int mlx5dv_dump_dr_matcher(FILE *fout, struct mlx5dv_dr_matcher *matcher);
func (l Lib) DumpDRMatcher(matcher uintptr) ([]byte, error) {
	return dumped(func(f uintptr) error { return l.lib.Err("mlx5dv_dump_dr_matcher", f, matcher) })
}

// int mlx5dv_dump_dr_rule(FILE *fout, struct mlx5dv_dr_rule *rule);
func (l Lib) DumpDRRule(rule uintptr) ([]byte, error) {
	return dumped(func(f uintptr) error { return l.lib.Err("mlx5dv_dump_dr_rule", f, rule) })
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
