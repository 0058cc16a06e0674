package level

import "testing"

func TestLevel(t *testing.T) {
	tests := []struct {
		size       int
		arch, want string
	}{
		{0, "amd64", ""},
		{424, "amd64", "MLNX_OFED before 4.0, not rdma-core"},
		{432, "amd64", "MLNX_OFED 4.x, not rdma-core"},
		{440, "arm64", "MLNX_OFED 4.x, not rdma-core"},
		{496, "amd64", "v13 to v15"},
		{648, "amd64", "v22 to v58"},
		{656, "arm64", "v22 to v58"},
		{672, "amd64", "v59 to v61"},
		{680, "amd64", "v62 to v63"},
		{680, "arm64", "v59 to v61"},
		{696, "amd64", "v64 to v65"},
		{704, "arm64", "v64 to v65"},
		{704, "amd64", "newer than v65"},
		{700, "arm64", "unknown (no release has 692 bytes)"},
		{500, "amd64", "unknown (no release has 500 bytes)"},
	}
	for _, tt := range tests {
		if got := Of(tt.size, tt.arch); got != tt.want {
			t.Errorf("Of(%d, %s) = %q, want %q", tt.size, tt.arch, got, tt.want)
		}
	}
}
