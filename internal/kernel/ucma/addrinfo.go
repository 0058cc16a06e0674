package ucma

import "github.com/pureverbs/pureverbs/internal/control"

// GetAddrInfo is rdma_getaddrinfo.
func (c *CM) GetAddrInfo(string, string, *control.AddrInfo) ([]control.AddrInfo, int, error) {
	return nil, -1, control.ErrNoOp
}

// ResolveAddrInfo is rdma_resolve_addrinfo.
func (c *CM) ResolveAddrInfo(control.Handle, string, string, *control.AddrInfo) (int, error) {
	return -1, control.ErrNoOp
}

// QueryAddrInfo is rdma_query_addrinfo.
func (c *CM) QueryAddrInfo(control.Handle) ([]control.AddrInfo, error) { return nil, control.ErrNoOp }

// CreateEP is rdma_create_ep.
func (c *CM) CreateEP(*control.AddrInfo) (control.Handle, error) { return 0, control.ErrNoOp }

// GAIText describes a code of GetAddrInfo.
func (c *CM) GAIText(int) string { return "" }
