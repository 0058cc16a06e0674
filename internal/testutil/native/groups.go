package native

// groups are the rows by package and reason.
var groups = []group{
	{"ibv", needsOps, `TestRXE_NumbersOfTheTable TestRXE_TrueSizes TestRXE_RegistersOfTheirOwn TestRXE_Faults
		TestRXE_ServiceLevel TestRXE_ResizeSRQ TestRXE_MWOldLibrary TestRXE_TagMatchingRefused TestRXE_Signatures
		TestRXE_SameWords TestRXE_RawNobody TestRXE_WallClockUpdate/Ops`},
	{"ibv", needsC, `TestRXE_Adopt`},
	{"ibv", needsLibrary, `TestRXE_MWUnknownProvider`},

	{"mlx5dv", needsOps, `TestRXEDC/.*Ops.* TestRXEDC_Failures TestRXEDC_Streams/Ops TestRXEDC_BadInput/Ops
		TestRXEDC_Allocs TestRXECreateCQ TestRXEFaults TestRXEMkeyRoom TestRXEViewRefused TestRXEWQRaw
		TestRXEZZDeviceRemoved TestRXERawBytes`},
	{"mlx5dv", lacks("mlx5dv", library), `TestRXEDirectRules TestRXEMkeyConfigure TestRXEMemcpy
		TestRXEMemcpy_DCI TestRXEMkeyErrors TestRXEMkeyBytes TestRXEMkey TestRXEMkeyAllocs
		TestRXE_PayloadInCQE TestRXE_MisplacedResults TestRXESignature TestRXEWQRefused`},

	{"cmd/perf", needsEFA, `TestRXE_Mismatch/device_limits`},
}
