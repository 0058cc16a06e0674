package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// QueryDevice returns the attributes of the device. explain is false for the question whether it is still there.
func (f *File) QueryDevice(explain bool) (*abi.UverbsQueryDeviceResp, error) {
	q, r := new(abi.UverbsGetContext), new(abi.UverbsQueryDeviceResp)
	m := request{in: Bytes(q), out: Bytes(r)}
	if !explain {
		_, err := f.send(&queryDevice, &m, nil)
		return r, err
	}
	return r, f.do(&queryDevice, m)
}

// QueryDeviceEx returns more of them, as many as ResponseLength says. EOPNOTSUPP and ENOSYS mean that the kernel lacks
// the command.
func (f *File) QueryDeviceEx(d Driver) (*abi.UverbsExQueryDeviceResp, error) {
	q, r := new([2]uint32), new(abi.UverbsExQueryDeviceResp)
	if err := f.do(&queryDeviceEx, request{Bytes(q), Bytes(r), d}); err != nil {
		return nil, err
	}
	n := r.ResponseLength
	least, most := sizeOf[abi.UverbsQueryDeviceResp]()+8, sizeOf[abi.UverbsExQueryDeviceResp]()
	ok := uintptr(n) >= least && uintptr(n) <= most
	return r, Check(ok, queryDeviceEx.name, "length", uint64(n), "that of the struct")
}

// QueryPort returns the attributes of a port. A write fills LegacyResp.
func (f *File) QueryPort(port uint8) (*abi.UverbsQueryPortRespEx, error) {
	q, r := &abi.UverbsQueryPort{PortNum: port}, new(abi.UverbsQueryPortRespEx)
	return r, f.do(&queryPort, request{in: Bytes(q), out: Bytes(&r.LegacyResp)}, Uint64(0, uint64(port)),
		Out(1, Bytes(r)))
}

// QueryGIDEntry fills in an entry of the GID table. The error matches Absent before Linux 5.10.
func (f *File) QueryGIDEntry(port uint32, index uint32, r *abi.GIDEntry) error {
	return f.do(&queryGIDEntry, request{}, Uint64(0, uint64(port)), Uint64(1, uint64(index)), Uint32(2, 0),
		Out(3, Bytes(r)))
}

// QueryGIDTable fills entries with those of all ports, and returns how many there are.
func (f *File) QueryGIDTable(entries []abi.GIDEntry) (int, error) {
	n := new(uint64)
	err := f.do(&queryGIDTable, request{}, Uint64(0, uint64(sizeOf[abi.GIDEntry]())), Uint32(1, 0),
		Out(2, BytesOf(entries)), Out(3, Bytes(n)))
	if err != nil {
		return 0, err
	}
	ok := *n <= uint64(len(entries))
	return int(*n), Check(ok, queryGIDTable.name, "entries", *n, "at most those that there is room for")
}
