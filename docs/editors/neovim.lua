-- The language server of Sheaf in Neovim 0.11 or later: copy to lsp/sheaf.lua in the
-- folder of your configuration, then vim.lsp.enable('sheaf').
return {
  cmd = { 'sheaf-lsp-server' },
  filetypes = { 'mlir' },
  root_markers = { '.git' },
}
