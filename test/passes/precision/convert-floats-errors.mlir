// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-convert-floats=to=f128

// expected-error @below {{nn-convert-floats: unknown type 'f128', expected 'f64'}}
module {
}
