# causeway_embed_page(TARGET HTML): compiles a page into the target, as kPage and kPagePolicy of
# src/server/http/page.h. The page has one <script> and one <style>; the policy names them by their
# hashes, so that nothing else runs, whatever gets into the page.

# Base64, of 32 bytes in hexadecimal.
function(_causeway_base64 hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  string(APPEND hex "00")  # 33 bytes are whole groups of three
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}" ${at} 6 group)
    math(EXPR bits "0x${group}")
    foreach(shift 18 12 6 0)
      math(EXPR index "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# 'sha256-…' of what is between <TAG> and </TAG>.
function(_causeway_hash page tag out)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  if(begin LESS 0 OR end LESS begin)
    message(FATAL_ERROR "the page has no <${tag}>")
  endif()
  string(LENGTH "<${tag}>" length)
  math(EXPR begin "${begin} + ${length}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${length} content)
  string(SHA256 hex "${content}")
  _causeway_base64("${hex}" base64)
  set(${out} "'sha256-${base64}'" PARENT_SCOPE)
endfunction()

function(causeway_embed_page target html)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${html})
  file(READ ${html} page)
  if(page MATCHES "\\)page\"")
    message(FATAL_ERROR "${html} has what ends the literal that it is put into")
  endif()
  _causeway_hash("${page}" script script)
  _causeway_hash("${page}" style style)
  string(CONCAT policy "default-src 'none'; script-src ${script}; style-src ${style}; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/page.cc)
  string(CONCAT content "#include \"server/http/page.h\"\n\nnamespace causeway::server {\n\n"
         "const std::string_view kPage = R\"page(${page})page\";\n"
         "const std::string_view kPagePolicy =\n    \"${policy}\";\n\n"
         "}  // namespace causeway::server\n")
  file(CONFIGURE OUTPUT ${source} CONTENT "${content}" @ONLY)
  target_sources(${target} PRIVATE ${source})
endfunction()
