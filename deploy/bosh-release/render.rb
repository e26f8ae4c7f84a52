# Renders a job's templates as a BOSH Director does: `ruby render.rb JOB_FOLDER PROPERTIES.json OUTPUT_FOLDER`.
require 'erb'
require 'fileutils'
require 'json'
require 'yaml'

UNSET = Object.new

# What templates may call: p, if_p. Properties are looked up by dotted name; the spec says the defaults.
class Job
  def initialize(spec, given)
    @defaults = spec['properties'].transform_values { |told| told['default'] }
    @given = given
  end

  def p(name, default = UNSET)
    value = look_up(name)
    return value unless value.nil?
    return default unless default.equal?(UNSET)
    raise "property #{name} is not in the spec" unless @defaults.key?(name)
    raise "property #{name} has neither a value nor a default" if @defaults[name].nil?

    @defaults[name]
  end

  def if_p(name)
    value = look_up(name)
    value = @defaults[name] if value.nil?
    yield value unless value.nil?
  end

  def render(text)
    ERB.new(text, trim_mode: '-').result(binding)
  end

  private

  def look_up(name)
    name.split('.').reduce(@given) { |found, key| found.is_a?(Hash) ? found[key] : nil }
  end
end

folder, properties, output = ARGV
spec = YAML.safe_load(File.read(File.join(folder, 'spec')))
job = Job.new(spec, JSON.parse(File.read(properties)))
spec['templates'].each do |source, target|
  path = File.join(output, target)
  FileUtils.mkdir_p(File.dirname(path))
  File.write(path, job.render(File.read(File.join(folder, 'templates', source))))
  File.chmod(target.start_with?('bin/') ? 0o755 : 0o640, path)
end
